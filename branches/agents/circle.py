"""The circle: where an entity acts. It reads what the crystal wrote, and nothing leaves it but calls of its gates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, cast

import msgspec

from branches.agents.approval import bad_question
from branches.agents.crystal import Finish, ToolCall, is_cut
from branches.agents.delegation import child_outcome, refusal
from branches.agents.gate import Gate, gate
from branches.agents.gates import ASK_PERSON, CALL_AGENT, CALL_AGENT_BATCH, DONE, EXECUTE, GateDefinition, canonical
from branches.agents.reach import out_of_reach
from branches.agents.wards import Ward, Wards, resolve
from policies import InvalidPayload, Step, freeze

Shape = Callable[[Any], float | None]
"""A shaped reward: a pure function of a turn of the loom. None says nothing about it."""
DELEGATING = (CALL_AGENT.name, CALL_AGENT_BATCH.name)
_CUT = "cut_off: the answer was cut off at this call, which may lack a part and was not made; make it again, shorter"
_BUILT_IN = {definition.name: definition for definition in (DONE, CALL_AGENT, CALL_AGENT_BATCH, ASK_PERSON)}
_OWN = frozenset(_BUILT_IN)


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """What the entity gets to see of one gate call (CIRCLE-4, D-005). A failure is one too, with `is_error`."""

    gate: str
    args: Mapping[str, Any]
    result: Any
    is_error: bool = False
    tool_call_id: str | None = None

    @property
    def text(self) -> str:
        """The observation as the crystal reads it. Code says itself what went wrong and what went before it."""
        text = as_text(self.result)
        return f"Error: {text}" if self.is_error and self.gate != EXECUTE else text


class GateCall(msgspec.Struct, frozen=True):
    """A call that may pass a gate."""

    tool_call: ToolCall
    arguments: Mapping[str, Any]

    @property
    def gate(self) -> str:
        """The gate's name."""
        return canonical(self.tool_call.gate)

    def observation(self, outcome: Step) -> Observation:
        """What the entity sees of the outcome; a child's is its ending."""
        if self.gate == CALL_AGENT.name:
            outcome = child_outcome(outcome)
        payload = outcome.payload
        if outcome.is_error:
            return self._observation(f"{payload['code']}: {payload['message']}", True)
        if "result" not in payload:  # an answer of another kind, which somebody sent under this call's id
            return self._observation("bad_result: what came back is no result of a gate", True)
        return self._observation(payload["result"], False)

    def refused(self, reason: str) -> Observation:
        """What the entity sees when the call never leaves the circle."""
        return self._observation(reason, True)

    def _observation(self, result: object, is_error: bool) -> Observation:
        id = self.tool_call.id
        return Observation(gate=self.gate, args=self.arguments, result=result, is_error=is_error, tool_call_id=id)


class CodeCall(msgspec.Struct, frozen=True):
    """Code that may run in the circle's medium."""

    tool_call: ToolCall
    code: str

    def observation(self, text: str, *, is_error: bool) -> Observation:
        """What the entity sees of what the code came to."""
        id = self.tool_call.id
        return Observation(gate=EXECUTE, args={"code": self.code}, result=text, is_error=is_error, tool_call_id=id)


class Done(msgspec.Struct, frozen=True):
    """The entity says that it has finished, with any value (CIRCLE-8)."""

    answer: Any
    observation: Observation


Intended = GateCall | CodeCall | Done | Observation
"""What a call comes to: one that may pass its gate, code, the end, or an error that the entity is shown."""


class Circle(msgspec.Struct, frozen=True, dict=True):
    """Medium, gates and wards. `served` are those gates whose functions run in the entity's own process.

    `reward` scores a turn of the loom, for those who read it; the loop does not know it. Calls of one utterance wait
    for each other, unless they are `independent`: then all are made at once. What they give is seen in their order.
    A call of a gate in `approve` waits until a person approves it: one of the `approvers`, or anybody where none is
    named.
    """

    gates: tuple[GateDefinition, ...]
    wards: Wards
    medium: str = "tools"
    served: Mapping[str, Gate] = {}
    reward: Shape | None = None
    independent: bool = False
    approve: tuple[str, ...] = ()
    approvers: tuple[str, ...] = ()

    @cached_property
    def has_done(self) -> bool:
        """Whether the entity can say that it has finished (CIRCLE-1)."""
        return any(gate.name == DONE.name for gate in self.available)

    @cached_property
    def available(self) -> tuple[GateDefinition, ...]:
        """The gates that the wards leave: what the crystal is told about (CIRCLE-6, COMP-6)."""
        return tuple(gate for gate in self.gates if self._removed(gate.name) is None)

    @cached_property
    def causes(self) -> frozenset[str]:
        """What calls of the available gates may come to, by name: a batch is made of single calls of `call_agent`."""
        names = frozenset(gate.name for gate in self.available)
        return names | {CALL_AGENT.name} if CALL_AGENT_BATCH.name in names else names

    @cached_property
    def outward(self) -> tuple[GateDefinition, ...]:
        """The gates that somebody else serves."""
        return tuple(gate for gate in self.gates if gate.name not in _OWN and gate.name not in self.served)

    def is_guarded(self, gate: str) -> bool:
        """Whether a call of this gate waits for an approval. Who guards single children guards batches of them too."""
        return gate in self.approve or (gate == CALL_AGENT_BATCH.name and CALL_AGENT.name in self.approve)

    def read_all(self, calls: Sequence[ToolCall], finish: Finish | None) -> Iterator[Intended]:
        """What the calls of one answer come to, in their order.

        Where an answer was cut off, its last call may be valid JSON and still lack a part: it is not made.
        """
        whole = len(calls) - is_cut(finish)
        for place, call in enumerate(calls):
            yield self.read(call) if place < whole else GateCall(call, {}).refused(_CUT)

    def read(self, call: ToolCall) -> Intended:
        """What a call that is whole comes to."""
        runs_code = self.medium != "tools"
        if runs_code and call.gate != EXECUTE:
            return GateCall(call, {}).refused(f"unknown_gate: there is only {EXECUTE!r}; call gates from its code")
        unavailable = None if runs_code else self._unavailable(canonical(call.gate))
        if unavailable is not None:
            return GateCall(call, {}).refused(unavailable)
        try:
            arguments = freeze(msgspec.json.decode(call.arguments.strip() or "{}"))
        except (msgspec.DecodeError, RecursionError, InvalidPayload) as error:
            return GateCall(call, {}).refused(f"bad_arguments: they are not valid JSON ({error})")
        if not isinstance(arguments, Mapping):
            return GateCall(call, {}).refused("bad_arguments: they must be a JSON object")
        if runs_code:
            code = cast("Mapping[str, Any]", arguments).get("code")
            if not isinstance(code, str):
                return GateCall(call, {}).refused(f"bad_arguments: {EXECUTE!r} needs `code`, a text")
            return CodeCall(call, code)
        return self._admit(GateCall(call, cast("Mapping[str, Any]", arguments)))

    def admit(self, name: str, arguments: Mapping[str, Any]) -> GateCall | Done | Observation:
        """The same for a call that code makes, whose arguments are JSON values already."""
        call = GateCall(ToolCall("", name), arguments)
        unavailable = self._unavailable(call.gate)
        if unavailable is not None:
            return call.refused(unavailable)
        try:
            return self._admit(GateCall(call.tool_call, freeze(arguments)))
        except InvalidPayload as error:
            return call.refused(f"bad_arguments: {error.reason}")

    def _admit(self, call: GateCall) -> GateCall | Done | Observation:
        if call.gate == DONE.name:
            if "answer" not in call.arguments:
                return call.refused("bad_arguments: `done` needs `answer`")
            answer = call.arguments["answer"]
            return Done(answer, call.observation(Step("", DONE.name, "action_result", {"result": answer})))
        reason = out_of_reach(self.wards.narrow.get(call.gate, {}), call.arguments)
        if reason is None and call.gate in DELEGATING:
            reason = refusal(call.gate, call.arguments, [gate.name for gate in self.available])
        if reason is None and call.gate == ASK_PERSON.name:
            reason = bad_question(call.arguments)
        return call if reason is None else call.refused(reason)

    def _unavailable(self, name: str) -> str | None:
        if all(gate.name != name for gate in self.gates):
            known = ", ".join(gate.name for gate in self.available)
            return f"unknown_gate: there is no gate {name!r}; there are: {known}"
        removed = self._removed(name)
        return None if removed is None else f"gate not available: {name}: {removed}"

    def _removed(self, name: str) -> str | None:
        if name in self.wards.removed:
            return "a ward removed it"
        if name in DELEGATING and self.wards.max_depth == 0:
            return "max_depth is reached, no further child is allowed"
        return None


def circle(
    gates: Iterable[str | GateDefinition | Gate | Callable[..., Any]],
    wards: Iterable[Ward] | Ward,
    medium: str = "tools",
    *,
    reward: Shape | None = None,
    independent: bool = False,
    approve: Iterable[str] = (),
    approvers: Iterable[str] = (),
) -> Circle:
    """A circle of gates and wards, as code writes it down.

    A gate is a name of a built-in one (`done`, `call_agent`, `call_agent_batch`), a definition of one that somebody
    else serves, a `Gate`, or a Python function. Raises `ValueError` for an unknown name, for two of one name, and for
    what can be no gate or no ward.
    """
    if isinstance(gates, str):
        raise ValueError(f"gates is a list: [{gates!r}]")
    definitions: dict[str, GateDefinition] = {}
    served: dict[str, Gate] = {}
    for each in gates:
        made = _definition(each)
        if isinstance(made, Gate):
            served[made.name] = made
            made = made.definition
        if made.name in definitions or made.name.startswith("@"):
            raise ValueError(f"gate {made.name!r} cannot stand here: its name is taken; give it another one")
        definitions[made.name] = made
    guarded = tuple(map(canonical, approve))
    for name in guarded:
        if name not in definitions or name == DONE.name:
            raise ValueError(f"gate {name!r} cannot wait for an approval: name a gate of this circle, and not `done`")
    restrictions = resolve(map(_ward, (wards,) if isinstance(wards, Ward) else wards))
    return Circle(
        tuple(definitions.values()),
        restrictions,
        medium,
        served,
        reward,
        independent,
        guarded,
        tuple(approvers),
    )


def _ward(given: Ward) -> Ward:
    """The ward as it is: what code writes down is held against the same types as what a file says."""
    try:
        return msgspec.convert(msgspec.to_builtins(given), Ward)
    except (TypeError, msgspec.ValidationError) as error:
        raise ValueError(f"{given!r} is no ward: {error}") from None


def _definition(given: str | GateDefinition | Gate | Callable[..., Any]) -> GateDefinition | Gate:
    if isinstance(given, GateDefinition | Gate):
        return given
    if not isinstance(given, str):
        if not callable(given):
            raise ValueError(f"{given!r} is no gate: give a name, a function or a definition")
        return gate(given)
    name = canonical(given)
    if name not in _BUILT_IN:
        raise ValueError(f"there is no built-in gate {given!r}: give a function or a definition instead of the name")
    return _BUILT_IN[name]


def as_text(value: object) -> str:
    """A value as text: a string is itself, all else JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
