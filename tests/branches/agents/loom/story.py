"""Agents journals written by hand: the records that a loop would leave, one method a thing that happens."""

from __future__ import annotations

from typing import Any

import msgspec

from branches.agents import AGENTS, AgentPrompt, AgentResponse, AgentToolCall, AgentToolFault, AgentToolResult
from branches.agents.circle import circle
from branches.agents.crystal import ToolCall, Usage
from branches.agents.entries import LastTurn, Utterance
from branches.agents.gates import EXECUTE, GateDefinition
from branches.agents.internal import (
    AgentUtterance,
    CodeReturned,
    CrystalCalled,
    CrystalFailed,
    EntityCast,
    EntityForked,
    EntityReturned,
    EntitySummoned,
    GateCalled,
    GateReturned,
    Refusal,
)
from branches.agents.naming import child_id, gate_call_id, run_id, turn_id
from branches.agents.wards import Ward
from coven.testing import ManualClock
from journals import Entry, Journal, MemoryStore, Record, Store, derive_id

ECHO = GateDefinition("echo", "Say it again.", {"type": "object"})
GATES = ("done", "call_agent", "call_agent_batch", ECHO)


def call(gate: str, id: str = "call_1", **arguments: Any) -> ToolCall:
    return ToolCall(id, gate, msgspec.json.encode(arguments).decode())


def code(text: str, id: str = "call_1") -> ToolCall:
    return call(EXECUTE, id, code=text)


class Story:
    """One session of a journal. Each record comes one second after the one before."""

    def __init__(self, journal: Journal, clock: ManualClock, session: str = "s") -> None:
        self.journal, self.clock, self.session = journal, clock, session
        self.cause: Record[Entry] | None = None
        self.run = ""

    @classmethod
    async def begin(cls, store: Store | None = None, clock: ManualClock | None = None) -> Story:
        clock = clock or ManualClock()
        store = store or MemoryStore(clock=clock.now)
        return cls(await store.open("agents", AGENTS.registry()), clock)

    def in_session(self, session: str) -> Story:
        return Story(self.journal, self.clock, session)

    async def add(self, entry: Entry, correlation_id: str | None = None) -> Record[Entry]:
        self.clock.advance(1)
        appended = await self.journal.append(
            entry, session=self.session, cause=self.cause, correlation_id=correlation_id
        )
        return appended.record

    async def cast(
        self,
        *,
        medium: str = "tools",
        system_prompt: str | None = "You are a test.",
        entity: str | None = None,
        **more: Any,
    ) -> None:
        made = circle(GATES, [Ward(max_turns=10, max_depth=2)], medium)
        entry = EntityCast(
            entity=entity or f"entity-{self.session}",
            cantrip=f"cantrip-{medium}",
            system_prompt=system_prompt,
            require_done_tool=False,
            tool_choice="auto",
            gates=made.gates,
            wards=made.wards,
            medium=medium,
            **more,
        )
        await self.add(entry)

    async def prompt(self, text: str) -> str:
        id = derive_id(self.session, text)
        self.clock.advance(1)
        appended = await self.journal.append(AgentPrompt(sender="Ada", text=text), session=self.session, id=id)
        self.cause, self.run = appended.record, run_id(id)
        return self.run

    async def asks(self, turn: int, run: str | None = None, attempt: int = 1) -> None:
        await self.add(
            CrystalCalled(run=run or self.run, turn=turn, attempt=attempt, context="", messages=1),
        )

    async def says(
        self,
        turn: int,
        *tool_calls: ToolCall,
        content: str | None = None,
        run: str | None = None,
        usage: Usage = Usage(),  # noqa: B008
    ) -> str:
        """An utterance; gives the turn's id."""
        run = run or self.run
        await self.asks(turn, run)
        entry = AgentUtterance(run=run, turn=turn, content=content, tool_calls=tool_calls, usage=usage, duration_ms=500)
        await self.add(entry)
        return turn_id(run, turn)

    async def calls(self, turn: int, text: str, run: str | None = None, result: Any = None) -> str:
        """An utterance that is one call of `echo`, recorded together with it, and what it gave."""
        scope, run = run, run or self.run
        await self.asks(turn, run)
        id = gate_call_id(run, turn, 0)
        said = Utterance(
            turn=turn, content=None, tool_calls=(call("echo", text=text),), usage=Usage(10, 2), duration_ms=500
        )
        entry = AgentToolCall(correlation_id=id, tool_name="echo", arguments={"text": text}, scope=scope, said=said)
        await self.add(entry, id)
        await self.gives(id, text if result is None else result)
        return turn_id(run, turn)

    async def tool_call(self, id: str, text: str, scope: str | None = None) -> None:
        await self.add(AgentToolCall(correlation_id=id, tool_name="echo", arguments={"text": text}, scope=scope), id)

    async def gives(self, id: str, result: Any) -> None:
        await self.add(AgentToolResult(correlation_id=id, result=result), id)

    async def faults(self, id: str, error: str) -> None:
        await self.add(AgentToolFault(correlation_id=id, error=error), id)

    async def summons(self, id: str, intent: str, scope: str | None = None, **asked: Any) -> str:
        await self.add(EntitySummoned(scope=scope or self.run, entity=child_id(id), intent=intent, **asked), id)
        return id

    async def child_returns(self, id: str, text: str, **more: Any) -> None:
        await self.add(EntityReturned(text=text, **more), id)

    async def gate_called(self, id: str, gate: str, arguments: dict[str, Any], scope: str | None = None) -> None:
        await self.add(GateCalled(scope=scope or self.run, gate=gate, arguments=arguments), id)

    async def gate_returned(self, id: str, result: Any = None, **failed: Any) -> None:
        await self.add(GateReturned(result=result, **failed), id)

    async def code_returned(self, id: str, *, scope: str | None = None, refused: tuple[Refusal, ...] = (), **more: Any):
        await self.add(CodeReturned(scope=scope or self.run, refusals=refused, **more), id)

    async def fails(self, turn: int, error: str, run: str | None = None) -> None:
        await self.asks(turn, run)
        await self.add(CrystalFailed(run=run or self.run, turn=turn, error=error, code="unavailable", duration_ms=500))

    async def ends(self, text: str, **more: Any) -> None:
        await self.add(AgentResponse(sender="agents", text=text, **more))

    async def ends_by_text(self, turn: int, text: str) -> str:
        await self.asks(turn)
        await self.ends(text, last=LastTurn(turn=turn, usage=Usage(7, 3, 1), duration_ms=500))
        return turn_id(self.run, turn)

    async def forked(self, session: str, run: str, turn: int, position: int) -> None:
        await self.add(EntityForked(session=session, run=run, turn=turn, position=position))

    async def records(self) -> list[Record[Entry]]:
        return [record async for record in self.journal.read()]
