"""How the engine's calls stand in the Agents journal: a gate call is the `AgentToolCall` that routes carry away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from branches.agents.crystal import ToolCall, Usage
from branches.agents.entries import (
    AgentResponse,
    AgentThought,
    AgentToolCall,
    AgentToolFault,
    AgentToolResult,
    LastTurn,
    Utterance,
)
from branches.agents.internal import AgentUtterance, CrystalCalled, CrystalFailed
from branches.agents.naming import CRYSTAL, LOOP, gate_call_id, run_id, turn_id
from journals import Entry, Record
from policies import (
    Action,
    Call,
    Called,
    InvalidPayload,
    Returned,
    Step,
    Writing,
    action_result,
    error_result,
)

UTTERANCE: Final = "utterance"


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


class AgentsCodec:
    """Writes an episode's calls as entries of the Agents journal, and reads them back; see `Codec`.

    The prompt is the recorded call of the loop, and the response its outcome. `sender` signs what others may read.
    """

    def __init__(self, sender: str) -> None:
        self._sender = sender

    def encode_call(self, call: Call, attempt: int) -> Writing:
        """`CrystalCalled`, or `AgentToolCall` under its own correlation id."""
        action = call.action
        if action.policy == CRYSTAL:
            payload = action.payload
            entry = CrystalCalled(
                run=call.scope,
                turn=payload["turn"],
                attempt=attempt,
                context=payload["context"],
                messages=payload["messages"],
            )
            return Writing(entry)
        entry = AgentToolCall(correlation_id=call.id, tool_name=action.policy, arguments=dict(action.payload))
        return Writing(entry, correlation_id=call.id)

    def encode_outcome(self, call: Call, steps: Sequence[Step]) -> Sequence[Writing]:
        """`AgentResponse`, `CrystalFailed`, or a fault of our own.

        What the crystal said is an `AgentUtterance`, or the `AgentToolCall` or `AgentResponse` that it begins with;
        an `AgentThought` goes along.
        """
        (step,) = steps
        payload = step.payload
        if call.action.policy == LOOP:
            return [Writing(AgentResponse(sender=self._sender, **payload))]
        if call.action.policy == CRYSTAL:
            return self._encode_crystal(call, step)
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
                duration_ms=payload["duration_ms"],
            )
            return [Writing(failed)]
        said = msgspec.convert(payload, Said)
        thoughts = [Writing(AgentThought(sender=self._sender, text=said.thinking))] if said.thinking else []
        if call.action.payload["text_ends"] and not said.tool_calls:
            last = LastTurn(turn=turn, usage=said.usage, duration_ms=said.duration_ms)
            return [*thoughts, Writing(AgentResponse(sender=self._sender, text=said.content or "", last=last))]
        if said.first is not None:
            whole = Utterance(
                turn=turn,
                content=said.content,
                tool_calls=said.tool_calls,
                usage=said.usage,
                duration_ms=said.duration_ms,
            )
            id, gate = gate_call_id(run, turn, 0), said.tool_calls[0].gate
            calling = AgentToolCall(correlation_id=id, tool_name=gate, arguments=said.first, said=whole)
            return [*thoughts, Writing(calling, correlation_id=id, makes=_called(calling, run))]
        utterance = AgentUtterance(
            run=run,
            turn=turn,
            content=said.content,
            tool_calls=said.tool_calls,
            usage=said.usage,
            duration_ms=said.duration_ms,
        )
        return [Writing(utterance), *thoughts]

    def decode(self, record: Record[Entry]) -> Sequence[Called | Returned]:
        """See `Codec.decode`."""
        entry = record.entry
        match entry:
            case CrystalCalled():
                return [Called(turn_id(entry.run, entry.turn), entry.run, entry.attempt, None)]
            case AgentUtterance():
                return [_said(entry)]
            case CrystalFailed():
                step = failure(entry.code, entry.error, entry.duration_ms)
                return [Returned(turn_id(entry.run, entry.turn), (step,))]
            case AgentToolCall():
                called = _called(entry, entry.scope or run_id(record.causation_id or ""))
                said = utterance_in(record)
                return [called] if said is None else [_said(said), called]
            case AgentToolResult() | AgentToolFault():
                return [Returned(entry.correlation_id, (gate_outcome(entry),))]
            case AgentResponse():
                run = run_id(record.causation_id or "")
                end = Returned(run, (ending(entry.text, entry.ending, entry.ward),))
                said = utterance_in(record)
                return [end] if said is None else [_said(said), end]
            case _:
                return []


def utterance_in(record: Record[Entry]) -> AgentUtterance | None:
    """What the crystal said, if this record says so: by itself, as the call it begins with, or as the response."""
    entry, run = record.entry, run_id(record.causation_id or "")
    match entry:
        case AgentUtterance():
            return entry
        case AgentToolCall(said=Utterance() as said):
            return AgentUtterance(
                run=entry.scope or run,
                turn=said.turn,
                content=said.content,
                tool_calls=said.tool_calls,
                usage=said.usage,
                duration_ms=said.duration_ms,
            )
        case AgentResponse(last=LastTurn() as last):
            return AgentUtterance(
                run=run,
                turn=last.turn,
                content=entry.text,
                tool_calls=(),
                usage=last.usage,
                duration_ms=last.duration_ms,
            )
        case _:
            return None


def ending(text: str, how: str, ward: str | None = None) -> Step:
    """How an episode ended, as the step that becomes its `AgentResponse`."""
    return action_result(LOOP, {"text": text, "ending": how, "ward": ward})


def failure(code: str, message: str, duration_ms: float) -> Step:
    """Why the crystal gave no answer."""
    payload = {"error": True, "code": code, "message": message, "duration_ms": duration_ms}
    return action_result(CRYSTAL, payload)


def utterance(said: Said) -> Step:
    """What the crystal said."""
    return Step("", CRYSTAL, UTTERANCE, msgspec.to_builtins(said))


def gate_outcome(entry: AgentToolResult | AgentToolFault) -> Step:
    """What came of a gate call."""
    if isinstance(entry, AgentToolFault):
        return error_result("gate", entry.code, entry.error)
    try:
        return action_result("gate", {"result": entry.result})
    except InvalidPayload as error:
        return error_result("gate", "bad_result", f"the gate answered with something unreadable: {error.reason}")


def _called(entry: AgentToolCall, run: str) -> Called:
    return Called(entry.correlation_id, run, 1, Action(entry.tool_name, entry.arguments))


def _said(entry: AgentUtterance) -> Returned:
    said = Said(content=entry.content, tool_calls=entry.tool_calls, usage=entry.usage, duration_ms=entry.duration_ms)
    return Returned(turn_id(entry.run, entry.turn), (utterance(said),))
