"""An agents instance on a journal in memory, with somebody who answers its gate calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from branches.agents import AGENTS, AgentPrompt, AgentResponse, AgentToolCall, AgentToolFault, AgentToolResult
from branches.agents.cantrip import configure
from branches.agents.crystal import Crystal, CrystalRequest, CrystalResponse
from branches.agents.gates import GateDefinition
from branches.agents.internal import CrystalCalled
from branches.agents.options import AgentsOptions, CallOptions, CircleOptions
from branches.agents.service import AgentsService
from branches.agents.wards import Ward
from branches.attachment import Attachment
from coven.testing import ManualClock
from journals import Entry, Journal, Lane, MemoryStore, Record, Store, derive_id

ECHO = GateDefinition("echo", "Say it again.", {"type": "object", "properties": {"text": {"type": "string"}}})
BREAK = GateDefinition("break", "Always fails.", {"type": "object"})
SILENT = GateDefinition("silent", "Never answers.", {"type": "object"})
GATES = (ECHO, BREAK, SILENT)


def options(
    *,
    gates: Iterable[str] = ("done", "echo", "break", "silent"),
    max_turns: int = 10,
    tool_timeout_s: float = 60,
    **call: Any,
) -> AgentsOptions:
    return AgentsOptions(
        call=CallOptions(**call),
        circle=CircleOptions(gates=tuple(gates), wards=(Ward(max_turns=max_turns),)),
        tool_timeout_s=tool_timeout_s,
    )


class Playbook:
    """A stateless crystal: what it says depends only on how often it has spoken in this context."""

    def __init__(self, answers: Iterable[CrystalResponse]) -> None:
        self._answers = list(answers)
        self.asked: list[int] = []

    async def invoke(self, request: CrystalRequest, on_text: object = None) -> CrystalResponse:
        spoken = sum(message.role == "assistant" for message in request.messages)
        self.asked.append(spoken)
        return self._answers[spoken]


class Hanging:
    """It says what it is to say, and then nothing any more."""

    def __init__(self, answers: list[CrystalResponse]) -> None:
        self._answers = list(answers)
        self.hung = asyncio.Event()

    async def invoke(self, request: CrystalRequest, on_text: object = None) -> CrystalResponse:
        if self._answers:
            return self._answers.pop(0)
        self.hung.set()
        await asyncio.Event().wait()
        raise AssertionError


class Bench:
    """One journal. Each `serve` is a process of its own, as far as the journal can tell."""

    def __init__(self, store: Store | None = None) -> None:
        self.clock = ManualClock()
        self.store: Store = store or MemoryStore(clock=self.clock.now)
        self.routed: list[str] = []
        self.held = asyncio.Event()
        self.held.set()

    async def open(self) -> Journal:
        return await self.store.open("agents", AGENTS.registry())

    async def service(self, crystal: Crystal, options_: AgentsOptions | None = None, **more: Any) -> AgentsService:
        journal = more.pop("journal", None) or await self.open()
        chosen = options_ or options()
        cantrip = more.pop("cantrip", None) or configure(crystal, chosen, GATES)
        timeout = chosen.tool_timeout_s
        arguments: dict[str, Any] = {"owner": "bench", "clock": self.clock, "tool_timeout_s": timeout, **more}
        return AgentsService("agents", journal, cantrip, **arguments)

    @asynccontextmanager
    async def serve(
        self, crystal: Crystal, options_: AgentsOptions | None = None, *, routed: bool = True, **more: Any
    ) -> AsyncIterator[AgentsService]:
        """A service at work, and the routes to those who answer its calls."""
        service = await self.service(crystal, options_, **more)
        ready = asyncio.Event()
        serving = asyncio.create_task(service.run(ready.set))
        routing = asyncio.create_task(self.route()) if routed else None
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait([waiting, serving], return_when=asyncio.FIRST_COMPLETED)
        try:
            if serving.done():
                serving.result()
            yield service
        finally:
            for task in (waiting, serving, routing):
                if task is not None:
                    failed = task.done() and not task.cancelled() and task.exception() is not None
                    task.cancel()
                    if not failed:
                        with suppress(asyncio.CancelledError):
                            await task
            if serving.done() and not serving.cancelled():
                serving.result()

    async def ask(
        self, text: str, session: str = "s", id: str | None = None, attachments: tuple[Attachment, ...] = ()
    ) -> Record[Entry]:
        """Append a prompt, as a route does."""
        journal = await self.open()
        id = id or derive_id("prompt", session, text)
        appended = await journal.append(
            AgentPrompt(sender="Ada", text=text, attachments=attachments),
            session=session,
            id=id,
            correlation_id=f"asked-{id}",
            origin="chat",
        )
        return appended.record

    async def response(self, prompt: Record[Entry]) -> AgentResponse:
        """The response to a prompt, once it is there."""
        journal = await self.open()
        found = await journal.wait_for(
            lambda record: record.causation_id == prompt.id,
            after=prompt.position,
            kinds=["AgentResponse"],
            session=prompt.session,
            timeout=60,
        )
        return cast("AgentResponse", found.entry)

    async def talk(self, text: str, session: str = "s") -> AgentResponse:
        return await self.response(await self.ask(text, session))

    async def wait(self, kind: str, count: int = 1) -> Record[Entry]:
        """The n-th record of a kind."""
        journal = await self.open()
        async with asyncio.timeout(60):
            async for record in journal.tail(kinds=[kind]):
                count -= 1
                if count == 0:
                    return record
        raise AssertionError("a tail never ends")

    async def records(self, *kinds: str) -> list[Record[Entry]]:
        journal = await self.open()
        return [record async for record in journal.read(kinds=kinds or None)]

    async def kinds(self) -> list[str]:
        return [record.kind for record in await self.records()]

    async def outcome(self) -> list[Any]:
        """All that is recorded, in order within each session, without times, claims and repeated attempts."""
        told: list[Any] = []
        for record in await self.records():
            entry = record.entry
            if isinstance(entry, CrystalCalled) and entry.attempt > 1:
                continue
            fields = msgspec.to_builtins(entry)
            fields.pop("duration_ms", None)
            for part in ("last", "said"):
                (fields.get(part) or {}).pop("duration_ms", None)
            envelope = (record.lane, record.id, record.correlation_id, record.causation_id, record.origin)
            told.append((record.session, envelope, fields))
        return sorted(told, key=lambda line: line[0])

    async def answer(self, call: Record[Entry], result: object, id: str | None = None) -> None:
        """The answer to a gate call, as a route brings it."""
        asked = cast("AgentToolCall", call.entry)
        entry = AgentToolResult(correlation_id=asked.correlation_id, result=result)
        journal = await self.open()
        id = id or derive_id("answer", asked.correlation_id)
        await journal.append(entry, session=call.session, id=id, cause=call)

    async def copy(self, record: Record[Entry]) -> None:
        """Append a record of another journal as if it had been written here."""
        journal = await self.open()
        cause = None if record.causation_id is None else replace(record, id=record.causation_id)
        await journal.append(
            record.entry,
            session=record.session,
            id=record.id,
            expect=await journal.claim(record.session, "copy") if record.lane is Lane.OUT else None,
            cause=cause,
            correlation_id=record.correlation_id,
            origin=record.origin,
        )

    async def route(self) -> None:
        """Answer each call once, also after a restart: that is what a router promises."""
        journal = await self.open()
        async for call in journal.tail(kinds=["AgentToolCall"]):
            await self.held.wait()
            entry = call.entry
            assert isinstance(entry, AgentToolCall)
            if entry.tool_name == "silent":
                continue
            reply = _answer(entry.tool_name, entry.arguments, entry.correlation_id)
            id = derive_id("answer", entry.correlation_id)
            appended = await journal.append(reply, session=call.session, id=id, cause=call)
            if appended.created:
                self.routed.append(entry.correlation_id)


def _answer(gate: str, arguments: Mapping[str, Any], call: str) -> AgentToolResult | AgentToolFault:
    if gate == "break":
        return AgentToolFault(correlation_id=call, error="it is broken", code="failed")
    return AgentToolResult(correlation_id=call, result=arguments.get("text", {"heard": arguments}))
