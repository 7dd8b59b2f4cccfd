"""Folding: a shorter view of a long thread. Nothing is lost by it; the loom keeps every turn (LOOM-5)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class Folding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """When and how the messages of early turns are folded; whichever trigger comes first counts (D-007).

    `window` keeps the newest turns and names those before them; `summary` has a crystal summarise them; `selective`
    keeps what the entity said and drops what its gates gave.
    """

    strategy: Annotated[
        Literal["window", "summary", "selective"], Meta(description="what stands in the place of folded turns")
    ] = "window"
    keep_turns: Annotated[
        Annotated[int, Meta(ge=1)], Meta(description="how many of the newest turns are always shown whole")
    ] = 8
    trigger_after_turns: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="fold when more turns than this are shown")
    ] = None
    trigger_at_tokens: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="fold when a request comes to more tokens; default: 80 % of what the crystal takes"),
    ] = None
