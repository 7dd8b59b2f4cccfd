"""How the engine's calls stand in the Agents journal: a gate call is the `AgentToolCall` that routes carry away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from branches.agents.crystal import ToolCall, Usage
from branches.agents.entries import (
    AgentResponse,
    AgentThought,
    AgentToolCall,
    AgentToolFault,
    AgentToolResult,
    LastTurn,
)
from branches.agents.internal import AgentUtterance, CrystalCalled, CrystalFailed
from branches.agents.naming import CRYSTAL, LOOP, run_id, turn_id
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
    """The payload of an utterance step."""

    content: str | None
    tool_calls: tuple[ToolCall, ...]
    usage: Usage
    duration_ms: float
    thinking: str | None = None


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
        """`AgentUtterance` with its `AgentThought`, `AgentResponse`, `CrystalFailed`, or a fault of our own."""
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
                return [Returned(turn_id(entry.run, entry.turn), (_utterance(entry),))]
            case CrystalFailed():
                step = failure(entry.code, entry.error, entry.duration_ms)
                return [Returned(turn_id(entry.run, entry.turn), (step,))]
            case AgentToolCall():
                scope = run_id(record.causation_id or "")
                return [Called(entry.correlation_id, scope, 1, Action(entry.tool_name, entry.arguments))]
            case AgentToolResult() | AgentToolFault():
                return [Returned(entry.correlation_id, (gate_outcome(entry),))]
            case AgentResponse():
                run = run_id(record.causation_id or "")
                end = Returned(run, (ending(entry.text, entry.ending, entry.ward),))
                said = last_utterance(entry, run)
                return [end] if said is None else [Returned(turn_id(run, said.turn), (_utterance(said),)), end]
            case _:
                return []


def last_utterance(response: AgentResponse, run: str) -> AgentUtterance | None:
    """The utterance of a response that is what the crystal said; None for one that the loop made."""
    last = response.last
    if last is None:
        return None
    return AgentUtterance(
        run=run,
        turn=last.turn,
        content=response.text,
        tool_calls=(),
        usage=last.usage,
        duration_ms=last.duration_ms,
    )


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


def _utterance(entry: AgentUtterance) -> Step:
    return utterance(
        Said(content=entry.content, tool_calls=entry.tool_calls, usage=entry.usage, duration_ms=entry.duration_ms)
    )
