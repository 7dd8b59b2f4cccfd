"""What is known of the runs at work: whose they are, and how far their turns have come."""

from __future__ import annotations

import msgspec

from branches.agents.circle import GateCall
from branches.agents.crystal import ToolCall, Usage
from branches.agents.naming import continued_id, gate_call_id, turn_id
from branches.agents.root_call import RootCall


class Calling(msgspec.Struct):
    """A gate call on its way. `closed` is the part of its turn that its children have closed, if it has any."""

    run: Running
    id: str
    call: GateCall
    within: str | None = None
    closed: int | None = None


class Running:
    """One run at work: an episode of the root entity, or of a child, which works for a call.

    `step` is its newest turn's number, counted from 1; `part` counts how often delegations have cut it. `read` counts
    the tool calls of its utterance that have come to something, `out` those that wait for their answers. `held` are
    the ids of what is open in it.
    """

    def __init__(self, id: str, entity_id: str, call: RootCall, works_for: Calling | None) -> None:
        self.id, self.entity_id, self.call, self.works_for = id, entity_id, call, works_for
        self.circle = call.circle
        self.depth: int = 0 if works_for is None else works_for.run.depth + 1
        self.step = self.part = self.read = self.out = 0
        self.begun = self.open = False
        self.total = Usage()
        self.tool_calls: tuple[ToolCall, ...] = ()
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
