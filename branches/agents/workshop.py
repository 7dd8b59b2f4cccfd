"""The workshop: what all sessions of one agents instance share."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from branches.agents.cantrip import Cantrip
from branches.agents.chunks import ChunkWriter
from branches.agents.medium import Medium
from branches.claims import Claims
from branches.settled import Settled
from journals import Journal
from policies import Clock


class Workshop(msgspec.Struct, frozen=True, kw_only=True):
    """What all sessions of one agents instance share. `bound` are cantrips of sessions that have their own."""

    name: str
    journal: Journal
    claims: Claims
    settled: Settled
    cantrip: Cantrip
    clock: Clock
    tool_timeout_s: float
    chunks: ChunkWriter | None
    medium: Callable[[str], Medium]
    bound: dict[str, Cantrip]
