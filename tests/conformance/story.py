"""What happened when a case was run: plain values, which `checks` holds against what was expected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from branches.agents.crystal import CrystalRequest, Usage


class GateSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A gate call of a turn, as the loom has it."""

    gate: str
    args: Any = None
    result: Any = None
    is_error: bool = False
    tool_call_id: str | None = None


class TurnSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A turn, with the fields of the specification."""

    id: str
    parent_id: str | None
    cantrip_id: str
    entity_id: str
    sequence: int
    utterance: str | None
    observation: str | None
    gate_calls: tuple[GateSeen, ...] = ()
    metadata: Mapping[str, Any] = {}
    reward: float | None = None
    terminated: bool = False
    truncated: bool = False


class EpisodeSeen(msgspec.Struct, frozen=True, kw_only=True):
    """How an episode ended. `thread` are the ids of its turns and of those before them, from the root on."""

    entity_id: str
    intent: str
    ending: str
    result: Any
    turns: int
    ward: str | None = None
    error: str | None = None
    usage: Usage = Usage()
    thread: tuple[str, ...] = ()


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """All of it. `error` is what was raised; `turns` are those of every loom, in order, each once."""

    error: str | None = None
    episodes: tuple[EpisodeSeen, ...] = ()
    requests: Mapping[str, tuple[CrystalRequest, ...]] = {}
    turns: tuple[TurnSeen, ...] = ()
    threads: int = 0
    call: Mapping[str, Any] | None = None
    extracted: tuple[TurnSeen, ...] | None = None
    runs: tuple[str, ...] = ()
    retries: tuple[float, ...] = ()

    def turn(self, id: str) -> TurnSeen:
        """The turn of this id."""
        return next(turn for turn in self.turns if turn.id == id)
