"""What happens while an entity works, for those who watch: the streaming events of the specification's section 7.2.

Events inform and steer nothing. They are projected from the journals alone, so they are the same live and replayed,
except that live the thought and the text of an utterance come in pieces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from branches.agents.crystal import Finish, Usage


class Event(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="event", omit_defaults=True):
    """Base of all events: whose it is, and in which turn of the loom. Children have a `depth` of 1 and more."""

    session: str
    entity_id: str
    turn_id: str
    depth: int = 0


class StepStartEvent(Event, frozen=True, kw_only=True):
    """A turn begins. `step` counts the crystal's answers in the episode, from 1.

    What goes on after a child has returned is a turn of its own in the same step.
    """

    step: int


class StepCompleteEvent(Event, frozen=True, kw_only=True):
    """A turn is over."""

    step: int


class PieceEvent(Event, frozen=True, kw_only=True):
    """Base of what comes whole or piece by piece. With `restart`, this turn's pieces of this kind before it are void.

    Put together, the pieces are what is recorded, however they came.
    """

    text: str
    restart: bool = False


class ThinkingEvent(PieceEvent, frozen=True, kw_only=True):
    """Reasoning that the crystal let us see, or the next piece of it."""


class TextEvent(PieceEvent, frozen=True, kw_only=True):
    """Text of the utterance, or the next piece of it."""


class UsageEvent(Event, frozen=True, kw_only=True):
    """The tokens of one request, and of all requests of the episode until now."""

    usage: Usage
    total: Usage


class ToolCallEvent(Event, frozen=True, kw_only=True):
    """A gate is called. `id` is its correlation id, `tool_call_id` the provider's; `within` is the call of code or of
    a batch that makes it.
    """

    id: str
    gate: str
    arguments: Mapping[str, Any]
    tool_call_id: str | None = None
    within: str | None = None


class ToolResultEvent(Event, frozen=True, kw_only=True):
    """What a gate gave, or with `is_error` why it gave nothing."""

    id: str
    gate: str
    result: Any
    is_error: bool = False
    within: str | None = None


class FinalResponseEvent(Event, frozen=True, kw_only=True):
    """An episode is over, as its asker sees it; the fields are those of `AgentResponse`.

    `finish` says why the text ends that ended it, where one did: `length` or `other` that it was cut off.
    """

    text: str
    answer: Any = UNSET
    ending: str = "terminated"
    ward: str | None = None
    finish: Finish | None = None


AnyEvent = (
    StepStartEvent
    | StepCompleteEvent
    | ThinkingEvent
    | TextEvent
    | UsageEvent
    | ToolCallEvent
    | ToolResultEvent
    | FinalResponseEvent
)
