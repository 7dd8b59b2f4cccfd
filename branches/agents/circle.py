"""The circle: where an entity acts. It reads what the crystal wrote, and nothing leaves it but calls of its gates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from branches.agents.crystal import ToolCall
from branches.agents.gates import DONE, GateDefinition
from branches.agents.wards import Wards
from policies import InvalidPayload, Step, freeze


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """What the entity gets to see of one gate call. A failure is an observation too, with `is_error`."""

    gate: str
    args: Mapping[str, Any]
    result: Any
    is_error: bool = False
    tool_call_id: str | None = None

    @property
    def text(self) -> str:
        """The observation as the crystal reads it."""
        return f"Error: {as_text(self.result)}" if self.is_error else as_text(self.result)


class GateCall(msgspec.Struct, frozen=True):
    """A call that may pass a gate."""

    tool_call: ToolCall
    arguments: Mapping[str, Any]

    def observation(self, outcome: Step) -> Observation:
        """What the entity sees of the outcome."""
        payload = outcome.payload
        result = f"{payload['code']}: {payload['message']}" if outcome.is_error else payload["result"]
        return self._observation(result, outcome.is_error)

    def refused(self, reason: str) -> Observation:
        """What the entity sees when the call never leaves the circle."""
        return self._observation(reason, True)

    def _observation(self, result: object, is_error: bool) -> Observation:
        call = self.tool_call
        return Observation(gate=call.gate, args=self.arguments, result=result, is_error=is_error, tool_call_id=call.id)


class Done(msgspec.Struct, frozen=True):
    """The entity says that it has finished."""

    answer: str
    observation: Observation


class Circle(msgspec.Struct, frozen=True):
    """Gates and wards."""

    gates: tuple[GateDefinition, ...]
    wards: Wards

    @property
    def has_done(self) -> bool:
        """Whether the entity can say that it has finished."""
        return any(gate.name == DONE.name for gate in self.gates)

    @property
    def outward(self) -> tuple[GateDefinition, ...]:
        """The gates behind which somebody else does the work: all but `done`."""
        return tuple(gate for gate in self.gates if gate.name != DONE.name)

    def read(self, call: ToolCall) -> GateCall | Done | Observation:
        """What a call comes to: one that may pass its gate, the end, or an error that the entity is shown."""
        if all(gate.name != call.gate for gate in self.gates):
            known = ", ".join(gate.name for gate in self.gates)
            return GateCall(call, {}).refused(f"unknown_gate: there is no gate {call.gate!r}; there are: {known}")
        try:
            arguments = freeze(msgspec.json.decode(call.arguments.strip() or "{}"))
        except (msgspec.DecodeError, RecursionError, InvalidPayload) as error:
            return GateCall(call, {}).refused(f"bad_arguments: they are not valid JSON ({error})")
        if not isinstance(arguments, Mapping):
            return GateCall(call, {}).refused("bad_arguments: they must be a JSON object")
        return self._admit(GateCall(call, cast("Mapping[str, Any]", arguments)))

    def _admit(self, gate_call: GateCall) -> GateCall | Done | Observation:
        call, arguments = gate_call.tool_call, gate_call.arguments
        if call.gate != DONE.name:
            return gate_call
        if "answer" not in arguments:
            return gate_call.refused("bad_arguments: `done` needs `answer`")
        answer = as_text(arguments["answer"])
        return Done(answer, gate_call.observation(Step("", DONE.name, "action_result", {"result": answer})))


def as_text(value: object) -> str:
    """A value as text: a string is itself, all else JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
