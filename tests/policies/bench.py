"""A journal of its own for the engine, and the few lines a service needs to run a policy over it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from coven.testing import ManualClock
from journals import Entry, EntryRegistry, Journal, Lane, MemoryStore, Record, derive_id
from policies import (
    Action,
    Call,
    Called,
    Outcome,
    PolicyRegistry,
    Recorder,
    Returned,
    Run,
    Step,
    Writing,
)


class Began(Entry, frozen=True, kw_only=True):
    """Whatever causes the run."""


class WasCalled(Entry, frozen=True, kw_only=True):
    call: str
    scope: str
    attempt: int
    policy: str
    payload: dict[str, Any]


class HasReturned(Entry, frozen=True, kw_only=True):
    call: str
    steps: tuple[dict[str, Any], ...]


class TestCodec:
    """Calls and outcomes as they are."""

    def encode_call(self, call: Call, attempt: int) -> Writing:
        action = call.action
        entry = WasCalled(
            call=call.id, scope=call.scope, attempt=attempt, policy=action.policy, payload=dict(action.payload)
        )
        return Writing(entry, correlation_id=call.id)

    def encode_outcome(self, call: Call, steps: Sequence[Step]) -> Sequence[Writing]:
        return [Writing(HasReturned(call=call.id, steps=tuple(msgspec.to_builtins(step) for step in steps)))]

    def decode(self, record: Record[Entry]) -> Sequence[Called | Returned]:
        match record.entry:
            case WasCalled() as entry:
                action = Action(entry.policy, entry.payload)
                return [Called(entry.call, entry.scope, entry.attempt, action)]
            case HasReturned() as entry:
                return [Returned(entry.call, tuple(msgspec.convert(step, Step) for step in entry.steps))]
            case _:
                return []


REGISTRY = EntryRegistry([Began, WasCalled, HasReturned])
SESSION = "session"


class Bench:
    """One journal, one run. Each `run` is a process of its own, as far as the journal can tell."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(clock=self.clock.now)

    async def open(self) -> Journal:
        return await self.store.open("bench", REGISTRY)

    async def run(
        self, registry: PolicyRegistry, policy: str = "root", payload: dict[str, Any] | None = None, **options: Any
    ) -> Outcome:
        """Perform the root policy to its end, going on with what the journal holds."""
        journal: Journal = options.get("journal") or await self.open()
        cause = await self._cause()
        claim = await journal.claim(SESSION, "bench")
        run = derive_id("run", cause.id)
        recorder = Recorder(run, journal, TestCodec(), claim=claim, cause=cause)
        position = 0
        async for record in journal.read(session=SESSION):
            recorder.observe(record)
            position = record.position
        action = Action(policy, payload or {}, frozenset(registry.names))
        root = Call(run, "", "", action)
        feeding = asyncio.create_task(self._feed(recorder, position))
        try:
            return await Run(root, registry, recorder, self.clock).execute()
        finally:
            feeding.cancel()

    async def dying(self, at: int, when: str) -> Journal:
        """The journal in a process that dies at its n-th write."""
        log = DyingLog((await self.open()).log, at, when)
        return Journal(log, REGISTRY, clock=self.clock.now)  # type: ignore[arg-type]

    async def answer(self, call: str, payload: dict[str, Any], id: str | None = None) -> Record[Entry]:
        """The answer of somebody outside."""
        entry = HasReturned(call=call, steps=(msgspec.to_builtins(Step("", "outside", "action_result", payload)),))
        return (await (await self.open()).append(entry, session=SESSION, id=id)).record

    async def called(self, policy: str) -> Record[Entry]:
        """Wait until a policy was called."""
        return await (await self.open()).wait_for(lambda r: getattr(r.entry, "policy", None) == policy)

    async def history(self) -> list[tuple[str, Any]]:
        """All that is recorded, without claims."""
        told: list[tuple[str, Any]] = []
        async for record in (await self.open()).read():
            entry = record.entry
            if isinstance(entry, WasCalled):
                told.append(("called", (entry.policy, entry.payload, entry.attempt)))
            elif isinstance(entry, HasReturned):
                told.append(("returned", tuple(step["payload"] for step in entry.steps)))
        return told

    async def _cause(self) -> Record[Entry]:
        journal = await self.open()
        return (await journal.append(Began(), session=SESSION, id="began", lane=Lane.IN)).record

    async def _feed(self, recorder: Recorder, position: int) -> None:
        journal = await self.open()
        async with aclosing(journal.tail(position, session=SESSION)) as records:
            async for record in records:
                recorder.observe(record)


class Killed(BaseException):
    """The process dies here."""


class DyingLog:
    """Dies before or after its n-th write, and does nothing more from then on."""

    def __init__(self, log: Any, at: int, when: str) -> None:
        self._log, self._at, self._when = log, at, when
        self.writes = 0
        self.dead = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def append(self, *args: Any) -> int:
        return await self._write(self._log.append, args)

    async def append_all(self, *args: Any) -> int:
        return await self._write(self._log.append_all, args)

    async def _write(self, write: Any, args: Any) -> int:
        self.writes += 1
        if self.dead or (self.writes == self._at and self._when == "before"):
            self.dead = True
            raise Killed
        position = await write(*args)
        if self.writes == self._at:
            self.dead = True
            raise Killed
        return position
