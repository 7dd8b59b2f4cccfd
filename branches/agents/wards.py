"""Wards: restrictions that the circle enforces, resolved by one pure fold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta


class Ward(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One ward as it is written down. What it leaves out, it does not restrict."""

    max_turns: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="after so many turns an episode is truncated")
    ] = None


class Wards(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What all wards of a circle come to."""

    max_turns: int | None = None

    @property
    def truncates(self) -> bool:
        """Whether some ward guarantees that every episode ends."""
        return self.max_turns is not None


def resolve(wards: Iterable[Ward]) -> Wards:
    """Of several numbers the most restrictive holds."""
    turns = [ward.max_turns for ward in wards if ward.max_turns is not None]
    return Wards(max_turns=min(turns, default=None))
