"""The memory store's short-lived journals: what is old is forgotten, and nobody who reads is confused by it."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from journals import Draft, MemoryStore, _memory
from tests.journals.kinds import Said, registry


class Hours:
    """A clock that is set by hand, in seconds."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


async def fill(journal, count: int, session: str = "s", start: int = 0) -> None:
    for first in range(start, start + count, 500):
        numbers = range(first, min(first + 500, start + count))
        await journal.append_all([Draft(entry=Said(text="x", number=n), session=session, id=str(n)) for n in numbers])


async def numbers(journal, **which: object) -> list[int]:
    return [record.entry.number async for record in journal.read(**which)]


async def test_chunks_are_forgotten_after_ten_minutes() -> None:
    clock = Hours()
    journal = await MemoryStore(clock=clock).open("chunks", registry(), short_lived=True)
    await fill(journal, 600, "old")
    async with aclosing(journal.tail()) as tail:
        assert (await anext(tail)).position == 1
        clock.now += 601
        await fill(journal, 1400, "new", start=600)
        assert await numbers(journal) == list(range(600, 2000))
        assert await numbers(journal, session="old") == []
        assert await numbers(journal, session="new", after=1000) == list(range(1000, 2000))
        assert (await journal.get(1), (await journal.get(601)).entry.number) == (None, 600)
        assert (await journal.end(), (await journal.last()).position) == (2000, 2000)
        positions = [(await anext(tail)).position for _ in range(1899)]
    assert positions == sorted(positions)
    assert positions[-1] == 2000


async def test_a_writer_goes_on_in_a_session_that_was_forgotten() -> None:
    clock = Hours()
    journal = await MemoryStore(clock=clock).open("chunks", registry(), short_lived=True)
    claim = await journal.claim("s", "me")
    await fill(journal, 1000)
    clock.now += 601
    await fill(journal, 1000, "other")
    assert (await journal.append(Said(text="x"), session="s", id="again")).created
    assert (await journal.append(Said(text="x"), session="s", expect=claim)).created


async def test_no_more_chunks_are_kept_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_memory, "SHORT_LIVED_MESSAGES", 1000)
    store = MemoryStore()
    chunks, kept = await store.open("chunks", registry(), short_lived=True), await store.open("chat", registry())
    await fill(chunks, 5000)
    await fill(kept, 5000)
    assert await numbers(chunks) == list(range(4000, 5000))
    assert await numbers(kept) == list(range(5000))
