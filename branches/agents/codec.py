"""How the engine's calls stand in the Agents journal: a gate call is the `AgentToolCall` that routes carry away."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import msgspec

from branches.agents.crystal import Usage
from branches.agents.delegation import read_request
from branches.agents.entries import (
    AgentResponse,
    AgentThought,
    AgentToolCall,
    AgentToolFault,
    AgentToolResult,
    ApprovalAsked,
    ApprovalGiven,
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
    run_id,
    turn_id,
)
from branches.agents.steps import (
    Said,
    code_run_of,
    code_step,
    ending_of,
    failure,
    fold_step,
    gate_outcome,
    last_words,
    utterance,
)
from branches.agents.utterances import calling_entry, last_turn, said_in, utterance_entry, utterance_in
from branches.attachment import Attachment
from journals import Entry, Record
from policies import (
    Action,
    Call,
    Called,
    Failed,
    Failure,
    Returned,
    Step,
    Writing,
    action_result,
)

ASKED_FIELDS: Final = ("call", "question", "choices", "gate", "arguments", "approvers")


class AgentsCodec:
    """Writes an episode's calls as entries of the Agents journal, and reads them back; see `Codec`.

    The prompt is the recorded call of the loop, and the response its outcome. `sender` signs what others may read;
    `served` names the gates that the entity's own process serves, so that no other branch need see their calls.
    `attached` gives the files that go with the response.
    """

    def __init__(
        self,
        sender: str,
        run: str,
        served: Collection[str] = (),
        *,
        attached: Callable[[], tuple[Attachment, ...]] = tuple,
    ) -> None:
        self._sender, self._run, self._attached = sender, run, attached
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
            asked = {**thaw(action.payload), "scope": self._scope(call)}
            entry = msgspec.convert({"correlation_id": call.id, "sender": self._sender, **asked}, ApprovalAsked)
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
        asks = AgentToolCall(correlation_id=call.id, tool_name=policy, arguments=arguments, scope=self._scope(call))
        return Writing(asks, correlation_id=call.id)

    def _scope(self, call: Call) -> str | None:
        """The scope of a call as others are told it: none is the episode itself."""
        return None if call.scope == self._run else call.scope

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
            response = AgentResponse(sender=self._sender, **_ended(payload), attachments=self._attached())
            return [Writing(response, ends=True)]
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
                usage=msgspec.convert(payload.get("usage", {}), Usage),
            )
            return [Writing(failed)]
        said = msgspec.convert(payload, Said)
        thought = AgentThought(sender=self._sender, text=said.thinking or "", stream=said.thought_stream)
        thoughts = [Writing(thought)] if thought.text else []
        if call.action.payload["text_ends"] and not said.tool_calls:
            words, last = last_words(said), last_turn(said, turn)
            if run == self._run:
                response = AgentResponse(sender=self._sender, **words, last=last, attachments=self._attached())
                return [*thoughts, Writing(response, ends=True)]
            return [*thoughts, Writing(EntityReturned(**words, last=last), correlation_id=run, ends=True)]
        if said.first is not None:
            calling = calling_entry(said, said.first, run, turn, self._scope(call))
            made = _called(calling, run)
            return [*thoughts, Writing(calling, correlation_id=calling.correlation_id, makes=made)]
        return [*thoughts, Writing(utterance_entry(said, run, turn))]

    def encode_failure(self, call: Call, attempt: int, failure: Failure) -> Writing:
        """`CrystalRetried`: only the crystal's attempts may be repeated."""
        turn = call.action.payload["turn"]
        retried = CrystalRetried(
            run=call.scope, turn=turn, attempt=attempt, error=failure.message, retry_at=failure.retry_at
        )
        return Writing(retried)

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
                step = failure(entry.code, entry.error, entry.duration_ms, entry.usage)
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
    return Returned(turn_id(entry.run, entry.turn), (utterance(said_in(entry)),))
