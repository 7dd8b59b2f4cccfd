"""What a writer knows of a subject has no gap, whatever was cut off, and does not grow for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import pytest

from journals import Claim, Draft, Journal, MemoryStore, StoreUnavailable
from journals._log import Log, Stored
from journals._sessions import SubjectIndexes
from tests.journals.kinds import Said, registry


class Halting:
    """A log whose readings of subjects stop in front of their first message, until they may go on or fail."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.halted, self.going = asyncio.Event(), asyncio.Event()
        self.error: Exception | None = None
        self.going.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def read(self, subject: str | None, after: int, before: int | None) -> AsyncGenerator[Sequence[Stored]]:
        if subject is not None:
            self.halted.set()
            await self.going.wait()
            if self.error is not None:
                raise self.error
        async for group in self._log.read(subject, after, before):
            yield group


@pytest.mark.parametrize("how", ["cancelled", "failed"])
@pytest.mark.parametrize("touched", [True, False])
async def test_a_reading_that_was_cut_off_leaves_no_gap_for_a_tail_to_hide(how: str, touched: bool):
    store = MemoryStore()
    inner, other = await store.open("chat", registry()), await store.open("chat", registry())
    log = Halting(inner.log)
    journal = Journal(log, registry())  # type: ignore[arg-type]
    await other.append(Said(text="first"), session="s", id="first")
    async with aclosing(journal.tail()) as tail:
        await anext(tail)
        if touched:
            await journal.append(Said(text="own"), session="s", id="own")
            await anext(tail)
        log.going.clear()
        log.halted.clear()
        await other.append(Said(text="hidden"), session="s", id="hidden")
        writing = asyncio.create_task(journal.append(Said(text="mine"), session="s", id="mine"))
        await log.halted.wait()
        await anext(tail)  # is met while the index is being read
        if how == "cancelled":
            writing.cancel()
        else:
            log.error = StoreUnavailable("away")
            log.going.set()
        await asyncio.wait([writing])
        log.error = None
        log.going.set()
        await other.append(Said(text="later"), session="s", id="later")
        await anext(tail)
        for id in ("first", "hidden", "later"):
            assert not (await journal.append(Said(text=id), session="s", id=id)).created
    assert (await journal.append(Said(text="mine"), session="s", id="mine")).created


async def test_a_session_is_read_as_it_stood_at_one_moment():
    store = MemoryStore()
    writer = await store.open("chat", registry())
    log = Halting(writer.log)
    reader = Journal(log, registry())  # type: ignore[arg-type]
    claim = await writer.claim("s", "me")
    await writer.append(Said(text="question"), session="s")
    log.going.clear()
    reading = asyncio.create_task(_all(reader))
    await log.halted.wait()
    await writer.append(Said(text="question"), session="s")
    await writer.append(Said(text="answer"), session="s", expect=claim)
    log.going.set()
    assert [record.entry for record in await reading] == [Said(text="question")]
    assert len(await _all(reader)) == 3


async def _all(journal: Journal) -> list[Any]:
    return [record async for record in journal.read(session="s")]


async def test_an_index_that_is_forgotten_while_somebody_waits_for_it_is_not_used_any_more():
    log = (await MemoryStore().open("chat", registry())).log
    indexes = SubjectIndexes(1, 1000)
    first = await indexes.acquire("in.a", log)
    waiting = asyncio.create_task(indexes.acquire("in.a", log))
    await asyncio.wait([waiting], timeout=0)
    first.lock.release()  # whoever waits is woken, but the lock is free until then
    (await indexes.acquire("in.b", log)).lock.release()
    index = await waiting
    again = asyncio.create_task(indexes.acquire("in.a", log))
    await asyncio.wait([again], timeout=0)
    assert not again.done()  # there is one index of a subject, and it is taken
    index.lock.release()
    assert await again is index


async def test_only_so_many_ids_are_kept_in_memory():
    log = (await MemoryStore().open("chat", registry())).log
    indexes = SubjectIndexes(10_000, 500)
    for number in range(3000):
        index = await indexes.acquire(f"in.{number % 100}", log)
        index.wrote([str(number)], number + 1)
        index.lock.release()
    kept = sum(len(index.ids) for index in indexes._indexes.values())
    assert kept <= 1500


async def test_ids_that_were_forgotten_are_read_again():
    journal = await MemoryStore().open("chat", registry())
    journal._indexes._limit = 2
    for created in (True, False):
        for session in "abcde":
            assert (await journal.append(Said(text="x"), session=session, id="once")).created == created


async def test_a_claim_may_be_handed_to_another_writer_of_the_process():
    store = MemoryStore()
    first, second = await store.open("chat", registry()), await store.open("chat", registry())
    await second.append(Said(text="x"), session="s", id="a", expect=await second.claim("s", "second"))
    claim: Claim = await first.claim("s", "first")
    await second.append(Said(text="x"), session="s", id="b", expect=claim)
    await second.append_all([Draft(entry=Said(text="x"), session="s", id="c")], expect=await first.claim("s", "first"))
