"""How the engine's calls stand in the Agents journal: a gate call is the `AgentToolCall` that routes carry away."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NoReturn

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from branches.agents.code import CodeRun
from branches.agents.crystal import ToolCall, Usage
from branches.agents.delegation import read_request
from branches.agents.entries import (
    AgentResponse,
    AgentThought,
    AgentToolCall,
    AgentToolFault,
    AgentToolResult,
    ApprovalAsked,
    ApprovalGiven,
    LastTurn,
    Utterance,
)
from branches.agents.gate import thaw
from branches.agents.gates import ASK_PERSON, CALL_AGENT, CALL_AGENT_BATCH
from branches.agents.internal import (
    AgentUtterance,
    CodeReturned,
    ContextFolded,
    CrystalCalled,
    CrystalFailed,
    CrystalRetried,
    EntityReturned,
    EntitySummoned,
    GateCalled,
    GateReturned,
)
from branches.agents.naming import (
    APPROVAL,
    CODE,
    CRYSTAL,
    DENIED,
    FOLD,
    LOOP,
    child_id,
    fold_id,
    gate_call_id,
    run_id,
    turn_id,
)
from journals import Entry, Record
from policies import (
    Action,
    Call,
    Called,
    Failed,
    Failure,
    InvalidPayload,
    Returned,
    Step,
    Writing,
    action_result,
    error_result,
)

UTTERANCE: Final = "utterance"
ASKED_FIELDS: Final = ("call", "question", "choices", "gate", "arguments", "approvers")
FOLDED_FIELDS: Final = ("turn", "through", "kept", "context_limit", "summary", "usage")
_encoder = msgspec.json.Encoder()
GateOutcome = AgentToolResult | AgentToolFault | GateReturned | EntityReturned


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """The payload of an utterance step.

    `first` holds the arguments of its first tool call, where that passes a gate that another branch serves, and
    nothing is to happen before: then the utterance is written as that very call.
    """

    content: str | None
    tool_calls: tuple[ToolCall, ...]
    usage: Usage
    duration_ms: float
    thinking: str | None = None
    first: dict[str, Any] | None = None
    model: str | None = None
    opaque: str | None = None


class AgentsCodec:
    """Writes an episode's calls as entries of the Agents journal, and reads them back; see `Codec`.

    The prompt is the recorded call of the loop, and the response its outcome. `sender` signs what others may read;
    `served` names the gates that the entity's own process serves, so that no other branch need see their calls.
    """

    def __init__(self, sender: str, run: str, served: Collection[str] = ()) -> None:
        self._sender, self._run = sender, run
        self._served = frozenset(served) | {CALL_AGENT_BATCH.name, ASK_PERSON.name}

    def encode_call(self, call: Call, attempt: int) -> Writing | None:
        """The entry of a call: under its own correlation id, but for the crystal's. Code stands in the utterance."""
        action, policy = call.action, call.action.policy
        if policy == CODE:
            return None
        if policy == CRYSTAL:
            payload = action.payload
            entry = CrystalCalled(
                run=call.scope,
                turn=payload["turn"],
                attempt=attempt,
                context=payload["context"],
                messages=payload["messages"],
                reserved=payload["reserved"],
            )
            return Writing(entry)
        if policy == APPROVAL:
            asked = {**thaw(action.payload), "scope": None if call.scope == self._run else call.scope}
            entry = msgspec.convert({"correlation_id": call.id, **asked}, ApprovalAsked)
            return Writing(entry, correlation_id=call.id)
        if policy == FOLD:
            return self._encode_summary(call, attempt)
        if policy == CALL_AGENT.name:
            asked = msgspec.structs.asdict(read_request(action.payload))
            asked["context"] = thaw(asked["context"])
            summoned = EntitySummoned(scope=call.scope, entity=child_id(call.id), attempt=attempt, **asked)
            return Writing(summoned, correlation_id=call.id)
        if policy == DENIED:
            denied = GateCalled(
                scope=call.scope,
                gate=action.payload["gate"],
                arguments=thaw(action.payload["arguments"]),
                attempt=attempt,
                denied=True,
            )
            return Writing(denied, correlation_id=call.id)
        arguments = thaw(action.payload)
        if policy in self._served:
            called = GateCalled(scope=call.scope, gate=policy, arguments=arguments, attempt=attempt)
            return Writing(called, correlation_id=call.id)
        scope = None if call.scope == self._run else call.scope
        asks = AgentToolCall(correlation_id=call.id, tool_name=policy, arguments=arguments, scope=scope)
        return Writing(asks, correlation_id=call.id)

    @staticmethod
    def _encode_summary(call: Call, attempt: int) -> Writing | None:
        """Only a summary is somebody else's work; any other fold follows from its turns."""
        payload = call.action.payload
        if not payload["messages"]:
            return None
        asks = CrystalCalled(
            run=call.scope,
            turn=payload["turn"],
            attempt=attempt,
            context="",
            messages=payload["messages"],
            reserved=payload["reserved"],
            summarises=True,
        )
        return Writing(asks)

    def encode_outcome(self, call: Call, steps: Sequence[Step]) -> Sequence[Writing]:
        """The entries of an outcome: what the crystal said with its thought, an ending, or what a gate gave.

        What the crystal said is an `AgentUtterance`, or the `AgentToolCall` or the ending that it begins with.
        """
        (step,) = steps
        payload, policy = step.payload, call.action.policy
        if policy == LOOP:
            return [Writing(AgentResponse(sender=self._sender, **_ended(payload)))]
        if policy == CRYSTAL:
            return self._encode_crystal(call, step)
        if policy == FOLD:
            return [Writing(msgspec.convert({"run": call.scope, **payload}, ContextFolded))]
        if policy == CALL_AGENT.name:
            return [Writing(_returned(step), correlation_id=call.id)]
        if policy == CODE:
            code = CodeReturned(scope=call.scope, **{**payload, "value": thaw(payload["value"])})
            return [Writing(code, correlation_id=call.id)]
        if policy in self._served or policy == DENIED:
            returned = (
                GateReturned(error=payload["message"], code=payload["code"])
                if step.is_error
                else GateReturned(result=thaw(payload["result"]))
            )
            return [Writing(returned, correlation_id=call.id)]
        fault = AgentToolFault(correlation_id=call.id, error=payload["message"], code=payload["code"])
        return [Writing(fault, correlation_id=call.id)]

    def _encode_crystal(self, call: Call, step: Step) -> Sequence[Writing]:
        payload = step.payload
        run, turn = call.scope, call.action.payload["turn"]
        if step.is_error:
            failed = CrystalFailed(
                run=run,
                turn=turn,
                error=payload["message"],
                code=payload["code"],
                duration_ms=payload.get("duration_ms", 0.0),
            )
            return [Writing(failed)]
        said = msgspec.convert(payload, Said)
        thoughts = [Writing(AgentThought(sender=self._sender, text=said.thinking))] if said.thinking else []
        if call.action.payload["text_ends"] and not said.tool_calls:
            last = LastTurn(
                turn=turn, usage=said.usage, duration_ms=said.duration_ms, model=said.model, opaque=said.opaque
            )
            text = said.content or ""
            if run == self._run:
                return [*thoughts, Writing(AgentResponse(sender=self._sender, text=text, last=last))]
            return [*thoughts, Writing(EntityReturned(text=text, last=last), correlation_id=run)]
        if said.first is not None:
            first, *others = said.tool_calls
            if first.arguments == _as_text(said.first):
                first = replace(first, arguments="")
            whole = Utterance(
                turn=turn,
                content=said.content,
                tool_calls=(first, *others),
                usage=said.usage,
                duration_ms=said.duration_ms,
                model=said.model,
                opaque=said.opaque,
            )
            calling = AgentToolCall(
                correlation_id=gate_call_id(run, turn, 0),
                tool_name=first.gate,
                arguments=thaw(said.first),
                scope=None if run == self._run else run,
                said=whole,
            )
            made = _called(calling, run)
            return [*thoughts, Writing(calling, correlation_id=calling.correlation_id, makes=made)]
        utterance = AgentUtterance(
            run=run,
            turn=turn,
            content=said.content,
            tool_calls=said.tool_calls,
            usage=said.usage,
            duration_ms=said.duration_ms,
            model=said.model,
            opaque=said.opaque,
        )
        return [*thoughts, Writing(utterance)]

    def encode_failure(self, call: Call, attempt: int, failure: Failure) -> Writing:
        """`CrystalRetried`: only the crystal's attempts may be repeated."""
        turn = call.action.payload["turn"]
        retried = CrystalRetried(
            run=call.scope, turn=turn, attempt=attempt, error=failure.message, retry_at=failure.retry_at
        )
        return Writing(retried)

    def encode_answer(self, call: Call, signal: str) -> NoReturn:
        """Never: an episode waits for gates, and their answers are entries of their own."""
        raise NotImplementedError("an episode waits for no signals")

    def encode_marker(self, name: str, version: int) -> NoReturn:
        """Never: the loop has no version markers."""
        raise NotImplementedError("the loop has no version markers")

    def decode(self, record: Record[Entry]) -> Sequence[Called | Returned | Failed]:
        """See `Codec.decode`."""
        entry, call = record.entry, record.correlation_id or ""
        match entry:
            case CrystalCalled(summarises=True):
                return [Called(fold_id(entry.run, entry.turn), entry.run, entry.attempt, None)]
            case ContextFolded():
                id = fold_id(entry.run, entry.turn)
                return [Called(id, entry.run, 1, None), Returned(id, (fold_step(entry),))]
            case CrystalCalled():
                return [Called(turn_id(entry.run, entry.turn), entry.run, entry.attempt, None)]
            case CrystalRetried():
                return [Failed(turn_id(entry.run, entry.turn), entry.attempt, entry.retry_at)]
            case AgentUtterance():
                return [_said(entry)]
            case CrystalFailed():
                step = failure(entry.code, entry.error, entry.duration_ms)
                return [Returned(turn_id(entry.run, entry.turn), (step,))]
            case AgentToolCall():
                called = _called(entry, entry.scope or run_id(record.causation_id or ""))
                said = utterance_in(record)
                return [called] if said is None else [_said(said), called]
            case ApprovalAsked():
                scope = entry.scope or run_id(record.causation_id or "")
                payload = {name: getattr(entry, name) for name in ASKED_FIELDS}
                return [Called(entry.correlation_id, scope, 1, Action(APPROVAL, payload))]
            case ApprovalGiven():
                given = action_result(APPROVAL, {"answer": entry.answer, "by": entry.by})
                return [Returned(entry.correlation_id, (given,))]
            case AgentToolResult() | AgentToolFault():
                return [Returned(entry.correlation_id, (gate_outcome(entry),))]
            case GateCalled():
                made = None if entry.denied else Action(entry.gate, entry.arguments)
                return [Called(call, entry.scope, entry.attempt, made)]
            case GateReturned():
                return [Returned(call, (gate_outcome(entry),))]
            case CodeReturned():
                return [Called(call, entry.scope, 1, None), Returned(call, (code_step(code_run_of(entry)),))]
            case EntitySummoned():
                return [Called(call, entry.scope, entry.attempt, None)]
            case EntityReturned() | AgentResponse():
                run = call if isinstance(entry, EntityReturned) else run_id(record.causation_id or "")
                end, said = Returned(run, (ending_of(entry),)), utterance_in(record)
                return [end] if said is None else [_said(said), end]
            case _:
                return []


def utterance_in(record: Record[Entry]) -> AgentUtterance | None:
    """What the crystal said, if this record says so: by itself, as the call it begins with, or as an ending."""
    entry, run = record.entry, run_id(record.causation_id or "")
    match entry:
        case AgentUtterance():
            return entry
        case AgentToolCall(said=Utterance() as said):
            first, *others = said.tool_calls
            if not first.arguments:
                first = replace(first, arguments=_as_text(entry.arguments))
            return AgentUtterance(
                run=entry.scope or run,
                turn=said.turn,
                content=said.content,
                tool_calls=(first, *others),
                usage=said.usage,
                duration_ms=said.duration_ms,
                model=said.model,
                opaque=said.opaque,
            )
        case AgentResponse(last=LastTurn() as last) | EntityReturned(last=LastTurn() as last):
            return AgentUtterance(
                run=run if isinstance(entry, AgentResponse) else record.correlation_id or "",
                turn=last.turn,
                content=entry.text,
                tool_calls=(),
                usage=last.usage,
                duration_ms=last.duration_ms,
                model=last.model,
                opaque=last.opaque,
            )
        case _:
            return None


def ending(text: str, how: str, ward: str | None = None, answer: Any = UNSET) -> Step:
    """How an episode ended, as the step that becomes its `AgentResponse`. `answer` is one that is no text."""
    told = {} if answer is UNSET else {"answer": answer}
    return action_result(LOOP, {"text": text, "ending": how, "ward": ward, **told})


def answer_of(entry: AgentResponse | EntityReturned) -> Any:
    """What an episode came to."""
    return entry.text if entry.answer is UNSET else entry.answer


def ending_of(entry: AgentResponse | EntityReturned) -> Step:
    """The same, as it is recorded."""
    return ending(entry.text, entry.ending, entry.ward, entry.answer)


def failure(code: str, message: str, duration_ms: float) -> Step:
    """Why the crystal gave no answer."""
    payload = {"error": True, "code": code, "message": message, "duration_ms": duration_ms}
    return action_result(CRYSTAL, payload)


def fold_step(folded: ContextFolded) -> Step:
    """What a fold came to."""
    fields = msgspec.to_builtins(folded)
    return action_result(FOLD, {name: fields[name] for name in FOLDED_FIELDS if name in fields})


def utterance(said: Said) -> Step:
    """What the crystal said."""
    return Step("", CRYSTAL, UTTERANCE, msgspec.to_builtins(said))


def code_step(run: CodeRun) -> Step:
    """What code came to."""
    return action_result(CODE, msgspec.structs.asdict(run) | {"refusals": msgspec.to_builtins(run.refusals)})


def code_run_of(entry: CodeReturned) -> CodeRun:
    """What code came to, as it is recorded."""
    return CodeRun(
        ending=entry.ending,
        output=entry.output,
        value=entry.value,
        error=entry.error,
        restored=entry.restored,
        refusals=entry.refusals,
    )


def gate_outcome(entry: GateOutcome) -> Step:
    """What came of a gate call."""
    if isinstance(entry, EntityReturned):
        return ending_of(entry)
    if isinstance(entry, AgentToolFault):
        return error_result("gate", entry.code, entry.error)
    if isinstance(entry, GateReturned) and entry.code is not None:
        return error_result("gate", entry.code, entry.error or "")
    try:
        return action_result("gate", {"result": entry.result})
    except InvalidPayload as error:
        return error_result("gate", "bad_result", f"the gate answered with something unreadable: {error.reason}")


def _as_text(arguments: Mapping[str, Any]) -> str:
    """Arguments as compact JSON, which is how most crystals write them."""
    return _encoder.encode(arguments).decode()


def _ended(payload: Any) -> dict[str, Any]:
    return {name: thaw(value) for name, value in payload.items()}


def _returned(step: Step) -> EntityReturned:
    """A child's ending; an error of the engine's own (a child that could not be) has failed."""
    payload = step.payload
    if step.is_error:
        return EntityReturned(text=f"{payload['code']}: {payload['message']}", ending="failed")
    return EntityReturned(**_ended(payload))


def _called(entry: AgentToolCall, run: str) -> Called:
    return Called(entry.correlation_id, run, 1, Action(entry.tool_name, entry.arguments))


def _said(entry: AgentUtterance) -> Returned:
    said = Said(
        content=entry.content,
        tool_calls=entry.tool_calls,
        usage=entry.usage,
        duration_ms=entry.duration_ms,
        model=entry.model,
        opaque=entry.opaque,
    )
    return Returned(turn_id(entry.run, entry.turn), (utterance(said),))
