"""The projection of records to events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from branches.agents.circle import CodeCall, Done, GateCall, Observation
from branches.agents.crystal import ToolCall, Usage
from branches.agents.entries import (
    AgentChunk,
    AgentResponse,
    AgentThought,
    AgentToolCall,
    AgentToolFault,
    AgentToolResult,
)
from branches.agents.events._events import (
    AnyEvent,
    FinalResponseEvent,
)
from branches.agents.events._running import Calling, Running
from branches.agents.events._speech import Speech
from branches.agents.gates import CALL_AGENT, CALL_AGENT_BATCH, DONE, EXECUTE
from branches.agents.internal import (
    AgentUtterance,
    CodeReturned,
    ContextFolded,
    CrystalCalled,
    CrystalFailed,
    EntityCast,
    EntityReturned,
    EntitySummoned,
    GateCalled,
    GateReturned,
)
from branches.agents.naming import run_id
from branches.agents.root_call import NO_CALL, child_call, request_of, root_call
from branches.agents.steps import GateOutcome, code_run_of, gate_outcome
from branches.agents.utterances import utterance_in
from journals import Entry, Record


class Events:
    """Projects the records of one session: those of the Agents journal in their order, and those of its short-lived
    journal whenever they come.

    It needs the session's `EntityCast`, so feed it from there on. Memory is bounded by what is at work.
    """

    def __init__(self) -> None:
        self._session = self._entity = ""
        self._call = NO_CALL
        self._runs: dict[str, Running] = {}
        self._calls: dict[str, Calling] = {}
        self._code: dict[str, Running] = {}
        self._speech = Speech()
        self._thoughts: list[str] = []

    def __repr__(self) -> str:
        return f"<Events of session {self._session}: {len(self._runs)} runs at work>"

    def feed(self, record: Record[Entry]) -> list[AnyEvent]:
        """What this record tells."""
        self._session = record.session
        return list(self._feed(record))

    def _feed(self, record: Record[Entry]) -> Iterator[AnyEvent]:
        said = utterance_in(record)
        if said is not None:
            yield from self._say(said)
        match record.entry:
            case EntityCast() as cast:
                self._entity, self._call = cast.entity, root_call(cast)
            case CrystalCalled(summarises=False) as called:
                yield from self._ask(called)
            case AgentChunk() as chunk:
                yield from self._speech.take(chunk)
            case AgentThought() as thought:
                self._thoughts.append(thought.text)
            case ContextFolded() as folded if folded.usage != Usage():
                yield self._run(folded.run).uses(folded.usage)
            case CrystalFailed() as failed:
                if failed.usage != Usage():
                    yield self._run(failed.run).uses(failed.usage)
                yield from self._run(failed.run).closes()
            case AgentToolCall() as called:
                scope = called.scope or run_id(record.causation_id or "")
                yield from self._make(called.correlation_id, scope, called.tool_name, called.arguments)
            case GateCalled() as called:
                yield from self._make(record.correlation_id or "", called.scope, called.gate, called.arguments)
            case EntitySummoned() as summoned:
                yield from self._summon(record.correlation_id or "", summoned)
            case AgentToolResult() | AgentToolFault() | GateReturned() as outcome:
                yield from self._settle(record.correlation_id or "", outcome)
            case CodeReturned() as code:
                yield from self._return_code(record.correlation_id or "", code)
            case EntityReturned() as returned:
                run = self._runs.get(record.correlation_id or "")
                if run is not None:
                    yield from self._end(run, returned)
                yield from self._settle(record.correlation_id or "", returned)
            case AgentResponse() as response if record.causation_id is not None:
                yield from self._end(self._run(run_id(record.causation_id)), response)
            case _:
                pass

    # Turns

    def _run(self, id: str) -> Running:
        run = self._runs.get(id)
        if run is None:
            run = self._runs[id] = Running(id, self._session, self._entity, self._call, None)
        return run

    def _ask(self, entry: CrystalCalled) -> Iterator[AnyEvent]:
        """The crystal is asked: with its first attempt a turn begins."""
        run = self._run(entry.run)
        if not run.begun and run.works_for is not None:  # now a child exists, and closes the turn of its parent
            if run.works_for.closed is None:
                run.works_for.closed = run.works_for.run.part
            yield from run.works_for.run.closes()
        run.begun = True
        if entry.turn > run.step:
            yield from run.closes()
            yield from run.begins(entry.turn)
        yield from self._speech.begin(run, entry.attempt)

    def _say(self, said: AgentUtterance) -> Iterator[AnyEvent]:
        run = self._run(said.run)
        if run.step < said.turn:  # we came too late for its beginning
            run.begun = True
            yield from run.begins(said.turn)
        thought, self._thoughts = "".join(self._thoughts), []
        yield from self._speech.finish(run, thought, said.content or "")
        yield run.uses(said.usage)
        run.says(said.tool_calls, said.finish)
        yield from self._go_on(run)

    def _go_on(self, run: Running) -> Iterator[AnyEvent]:
        """The next tool calls of the utterance: up to one that waits for its answer, or to the turn's end.

        Calls that are independent do not wait; only the end does.
        """
        while run.read < len(run.tool_calls):
            (tool_call, intended), id = run.tool_calls[run.read], run.call_id(run.read)
            if isinstance(intended, GateCall):
                calling = self._calls[id] = Calling(run, id, intended)
                run.held[id] = None
                run.out += 1
                yield calling.told(tool_call.id)
                if not run.call.independent:
                    return
                run.read += 1
                continue
            if isinstance(intended, Done) and run.out:
                return
            if isinstance(intended, CodeCall):
                self._code[id] = run
                run.held[id] = None
                yield run.calls(id, EXECUTE, {"code": intended.code}, tool_call.id)
                return
            seen = intended.observation if isinstance(intended, Done) else intended
            yield from run.answers_itself(id, seen, tool_call.id)
            run.read = len(run.tool_calls) if isinstance(intended, Done) else run.read + 1
        if not run.out:
            yield from run.closes()

    # Gates

    def _make(self, id: str, scope: str, gate: str, arguments: Mapping[str, Any]) -> Iterator[AnyEvent]:
        """A call that an utterance makes is known already; one that code makes is told when it is recorded."""
        run = self._code.get(scope)
        if run is not None and id not in self._calls:
            calling = self._calls[id] = Calling(run, id, GateCall(ToolCall("", gate), arguments), scope)
            run.held[id] = None
            yield calling.told()

    def _summon(self, id: str, entry: EntitySummoned) -> Iterator[AnyEvent]:
        if id in self._runs:
            return
        asked = msgspec.structs.asdict(request_of(entry))
        arguments = {name: value for name, value in asked.items() if value is not None}
        yield from self._make(id, entry.scope, CALL_AGENT.name, arguments)
        calling = self._calls.get(entry.scope)
        batched = calling is not None and calling.call.gate == CALL_AGENT_BATCH.name
        works_for = calling if batched else self._calls.get(id)
        if works_for is not None:
            call = child_call(works_for.run.call, entry)
            self._runs[id] = Running(id, self._session, entry.entity, call, works_for)
            works_for.run.held[id] = None

    def _settle(self, id: str, entry: GateOutcome) -> Iterator[AnyEvent]:
        calling = self._calls.pop(id, None)
        if calling is None:
            return
        run = calling.run
        run.held.pop(id, None)
        if calling.closed == run.part:  # of children that worked at the same time the first to return goes on
            run.part += 1
            yield from run.opens()
        seen = calling.call.observation(gate_outcome(entry))
        yield run.sees(id, seen, calling.within)
        if calling.within is None:
            run.out -= 1
            run.read += not run.call.independent
            yield from self._go_on(run)

    def _return_code(self, id: str, entry: CodeReturned) -> Iterator[AnyEvent]:
        run = self._code.pop(id, None)
        if run is None:
            return
        run.held.pop(id, None)
        made = code_run_of(entry)
        for refusal in made.refusals:
            args = cast("Mapping[str, Any]", refusal.arguments)
            seen = Observation(gate=refusal.gate, args=args, result=refusal.reason, is_error=True)
            yield from run.answers_itself(f"{id}.{refusal.index}", seen, within=id)
        if made.finished:
            seen = Observation(gate=DONE.name, args={"answer": made.value}, result=made.value)
            yield from run.answers_itself(f"{id}.done", seen, within=id)
        failed = made.error is not None
        yield run.sees(id, Observation(gate=EXECUTE, args={}, result=made.text, is_error=failed))
        run.read = len(run.tool_calls) if made.finished else run.read + 1
        yield from self._go_on(run)

    # Endings

    def _end(self, run: Running, entry: AgentResponse | EntityReturned) -> Iterator[AnyEvent]:
        yield from self._drop(run)
        if run.begun or run.works_for is None:
            yield FinalResponseEvent(
                **run.whose,
                text=entry.text,
                answer=entry.answer,
                ending=entry.ending,
                ward=entry.ward,
                finish=None if entry.last is None else entry.last.finish,
            )

    def _drop(self, run: Running) -> Iterator[AnyEvent]:
        """The run is over, and with it the children that were at work: turns are closed, and nothing of it is kept."""
        for id in [id for id in run.held if id in self._runs]:
            yield from self._drop(self._runs[id])
        yield from run.closes()
        self._speech.drop(run)
        self._runs.pop(run.id, None)
        for id in run.held:
            self._code.pop(id, None)
            self._calls.pop(id, None)
        if run.works_for is not None:
            run.works_for.run.held.pop(run.id, None)
