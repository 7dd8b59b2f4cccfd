"""The runs at work, and what is to be told of them: whose they are, and how far their turns have come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from branches.agents.circle import GateCall, Intended, Observation
from branches.agents.crystal import Finish, ToolCall, Usage
from branches.agents.events._events import (
    StepCompleteEvent,
    StepStartEvent,
    ToolCallEvent,
    ToolResultEvent,
    UsageEvent,
)
from branches.agents.naming import continued_id, gate_call_id, turn_id
from branches.agents.root_call import RootCall


class Calling(msgspec.Struct):
    """A gate call on its way. `closed` is the part of its turn that its children have closed, if it has any."""

    run: Running
    id: str
    call: GateCall
    within: str | None = None
    closed: int | None = None

    def told(self, tool_call_id: str | None = None) -> ToolCallEvent:
        """The call as an event."""
        return self.run.calls(self.id, self.call.gate, self.call.arguments, tool_call_id, self.within)


class Running:
    """One run at work: an episode of the root entity, or of a child, which works for a call.

    `step` is its newest turn's number, counted from 1; `part` counts how often delegations have cut it. `read` counts
    the tool calls of its utterance that have come to something, `out` those that wait for their answers. `held` are
    the ids of what is open in it.
    """

    def __init__(self, id: str, session: str, entity_id: str, call: RootCall, works_for: Calling | None) -> None:
        self.id, self.session, self.entity_id, self.call, self.works_for = id, session, entity_id, call, works_for
        self.circle = call.circle
        self.depth: int = 0 if works_for is None else works_for.run.depth + 1
        self.step = self.part = self.read = self.out = 0
        self.begun = self.is_open = False
        self.total = Usage()
        self.tool_calls: tuple[tuple[ToolCall, Intended], ...] = ()
        self.held: dict[str, None] = {}

    def __repr__(self) -> str:
        return f"<Running {self.id} at step {self.step}>"

    @property
    def base_id(self) -> str:
        """The id of the step's first turn."""
        return turn_id(self.id, max(1, self.step))

    @property
    def turn_id(self) -> str:
        """The id of its newest turn."""
        return continued_id(self.base_id, self.part)

    def call_id(self, index: int) -> str:
        """The id of a tool call of the step's utterance."""
        return gate_call_id(self.id, self.step, index)

    @property
    def whose(self) -> dict[str, Any]:
        """The fields that every event of its newest turn has."""
        return {
            "session": self.session,
            "entity_id": self.entity_id,
            "turn_id": self.turn_id,
            "depth": self.depth,
        }

    # What it tells

    def begins(self, step: int) -> Iterator[StepStartEvent]:
        """Its next step begins; the one before is over."""
        self.step, self.part, self.tool_calls, self.read, self.out = step, 0, (), 0, 0
        yield from self.opens()

    def opens(self) -> Iterator[StepStartEvent]:
        """A turn begins."""
        self.is_open = True
        yield StepStartEvent(**self.whose, step=self.step)

    def closes(self) -> Iterator[StepCompleteEvent]:
        """Its turn is over, if one has begun."""
        if self.is_open:
            self.is_open = False
            yield StepCompleteEvent(**self.whose, step=self.step)

    def says(self, tool_calls: tuple[ToolCall, ...], finish: Finish | None) -> None:
        """Its crystal has answered, and calls these."""
        self.tool_calls = tuple(zip(tool_calls, self.circle.read_all(tool_calls, finish), strict=True))

    def uses(self, usage: Usage) -> UsageEvent:
        """A request has used so much."""
        self.total += usage
        return UsageEvent(**self.whose, usage=usage, total=self.total)

    def calls(
        self, id: str, gate: str, arguments: Any, tool_call_id: str | None = None, within: str | None = None
    ) -> ToolCallEvent:
        """It calls a gate, or what the medium calls one."""
        return ToolCallEvent(
            **self.whose, id=id, gate=gate, arguments=arguments, tool_call_id=tool_call_id, within=within
        )

    def sees(self, id: str, seen: Observation, within: str | None = None) -> ToolResultEvent:
        """What it gets for a call."""
        return ToolResultEvent(
            **self.whose, id=id, gate=seen.gate, result=seen.result, is_error=seen.is_error, within=within
        )

    def answers_itself(
        self, id: str, seen: Observation, tool_call_id: str | None = None, within: str | None = None
    ) -> Iterator[ToolCallEvent | ToolResultEvent]:
        """A call that never leaves the circle, with what it sees of it."""
        yield self.calls(id, seen.gate, seen.args, tool_call_id, within)
        yield self.sees(id, seen, within)
