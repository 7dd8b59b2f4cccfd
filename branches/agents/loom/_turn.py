"""A turn: one node of the loom."""

from __future__ import annotations

from typing import Any, NoReturn

import msgspec

from branches.agents.circle import Observation
from branches.agents.crystal import Usage
from journals import AppendOnly


class LoomIsAppendOnly(AppendOnly):
    """Somebody tries to change or to delete what happened (LOOM-3)."""

    def __init__(self, what: str) -> None:
        super().__init__(f"loom is append-only: {what}")


class TurnMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn cost (LOOM-9). `timestamp` is when it began, ISO 8601 in UTC; `duration_ms` is all of its time.

    The tokens are those of all its requests: of its utterance, and of the summary by which its context was folded. A
    turn that goes on after a child has returned asked no crystal of its own: it cost none.
    """

    tokens_prompt: int = 0
    tokens_completion: int = 0
    tokens_cached: int = 0
    duration_ms: float = 0
    timestamp: str

    @property
    def usage(self) -> Usage:
        """The tokens of the turn."""
        return Usage(self.tokens_prompt, self.tokens_completion, self.tokens_cached)


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """An image that came with an intent. Its bytes are in the journal, in the record `prompt`."""

    name: str
    media_type: str
    size: int
    sha256: str
    prompt: str


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One cycle: what the entity said, what its circle gave, and whether it ended an episode, and how (LOOM-7).

    `sequence` counts the turns of its entity from 1. `utterance` is what the entity wrote, in a circle of code with the
    code; `observation` is what it got to see, and `gate_calls` is each gate call with what it gave, whole.

    The last turn of an episode has an `ending`: `terminated`, `truncated`, `failed` or `cancelled`; the `reason` of all
    but the first (the ward that truncated it, the error that failed it), and the `result` of the episode. The first one
    has its `intent`, and the `images` that came with it. `error` is what code threw. `model` is what wrote the
    utterance, as `provider/model`, and `finish` why that ends (`stop`, `tool_calls`, or cut off: `length`, `other`),
    where its crystal tells. `reward` is the newest that was given.
    """

    id: str
    parent_id: str | None
    cantrip_id: str
    entity_id: str
    sequence: int
    utterance: str
    observation: str
    gate_calls: tuple[Observation, ...] = ()
    metadata: TurnMetadata
    reward: float | None = None
    terminated: bool = False
    truncated: bool = False
    ending: str | None = None
    reason: str | None = None
    result: Any = None
    error: str | None = None
    intent: str | None = None
    session: str | None = None
    model: str | None = None
    images: tuple[Shown, ...] = ()
    finish: str | None = None


def _refuse(turn: Turn, name: str, *_: object) -> NoReturn:
    raise LoomIsAppendOnly(f"the {name} of turn {turn.id} stays as it is; `reward` gives a turn a reward")


Turn.__setattr__ = Turn.__delattr__ = _refuse  # in the class it would give way to the struct's own refusal
