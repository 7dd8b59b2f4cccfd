"""Five journals, routes written by hand, and routers that come and go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from branches.chat.entries import ChatAnswer, ChatQuestion
from covenants.applied import CovenantApplied
from covenants.dead_letters import DeadLetter, dead_letter_registry
from covenants.redrive import waiting_letters
from covenants.router import Router
from covenants.routing import Approval, TransformFailed
from journals import Draft, Entry, EntryRegistry, Journal, Record, Store
from tests.living import living


class Ping(Entry, frozen=True, kw_only=True):
    number: int


class Pong(Entry, frozen=True, kw_only=True):
    number: int
    part: int = 0


class Failed(Entry, frozen=True, kw_only=True):
    number: int
    error: str


def pong(entry: Any) -> list[Entry]:
    return [Pong(number=entry.number)]


class TestRoute(msgspec.Struct, frozen=True, kw_only=True):
    """A route written by hand."""

    __test__ = False

    name: str = "ping"
    source_instance: str = "a"
    source_kind: str = "Ping"
    target_instance: str | None = "b"
    fault_instance: str | None = None
    from_beginning: bool = False
    max_hops: int | None = None
    short_lived: bool = False
    approval: Approval | None = None
    make: Callable[[Any], list[Entry]] = pong

    def apply(self, record: Record[Any]) -> list[Entry]:
        return self.make(record.entry)

    def fault(self, record: Record[Any], failure: TransformFailed) -> Entry:
        return Failed(number=record.entry.number, error=str(failure))


class World:
    """Journals a, b and c, the system's and the dead letters'; opened anew for every router, as by a new process."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.wrap: Callable[[Journal], Journal] = lambda journal: journal

    async def open(self, name: str) -> Journal:
        return await self.store.open(name, EntryRegistry((Ping, Pong, Failed, ChatQuestion, ChatAnswer)))

    async def dead_letters(self) -> Journal:
        return await self.store.open("dead-letters", dead_letter_registry())

    async def router(self, *routes: TestRoute, owner: str = "one") -> Router:
        journals = {name: self.wrap(await self.open(name)) for name in "abc"}
        return Router(
            routes or (TestRoute(),),
            journals,
            short_lived={"a": await self.open("a-chunks"), "b": await self.open("b-chunks")},
            system=await self.store.open("coven", EntryRegistry((CovenantApplied,))),
            dead_letters=self.wrap(await self.dead_letters()),
            owner=owner,
        )

    @asynccontextmanager
    async def routing(self, *routes: TestRoute, owner: str = "one") -> AsyncIterator[asyncio.Task[None]]:
        async with living(await self.router(*routes, owner=owner), may_end=True) as task:
            yield task

    async def ping(self, count: int, start: int = 0, session: str = "s") -> None:
        journal = await self.open("a")
        drafts = [Draft(entry=Ping(number=n), session=session, id=str(n)) for n in range(start, start + count)]
        await journal.append_all(drafts)

    async def arrive(self, count: int, name: str = "b") -> list[Record[Entry]]:
        """Wait until so many records stand in a journal, and give all that do."""
        journal = await self.open(name)
        seen = 0

        def enough(_: Record[Entry]) -> bool:
            nonlocal seen
            seen += 1
            return seen == count

        await journal.wait_for(enough, timeout=60)
        return [record async for record in journal.read()]


def numbers(records: list[Record[Entry]]) -> list[int]:
    return [record.entry.number for record in records]  # type: ignore[attr-defined]


async def read_letters(world: World, count: int) -> list[Record[DeadLetter]]:
    journal = await world.dead_letters()
    while len(letters := await waiting_letters(journal)) < count:
        await journal.wait_for(lambda _: True, after=letters[-1].position if letters else 0, timeout=60)
    return letters
