"""A writer whose process tails the journal learns from the tail, and never learns too little."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journals import IdConflict, Journal, MemoryStore
from tests.journals.flaky import FlakyLog
from tests.journals.kinds import Said, registry


async def test_a_write_behind_what_was_routed_in_is_not_refused_first() -> None:
    store = MemoryStore()
    inner, other = await store.open("chat", registry()), await store.open("chat", registry())
    log = FlakyLog(inner.log, {}.get)
    journal = Journal(log, registry())  # type: ignore[arg-type]
    async with aclosing(journal.tail()) as tail:
        await other.append(Said(text="the tail has begun"), session="t")
        await anext(tail)
        for number in range(10):
            await journal.append(Said(text="mine", number=number), session="s")
            await other.append(Said(text="routed", number=number), session="s")
            for _ in range(2):
                await anext(tail)
    assert log.operations == 10


@given(st.lists(st.sampled_from(["mine", "others", "tail", "yield", "open", "again"]), max_size=60))
async def test_no_id_is_ever_missed_in_any_interleaving(steps: list[str]) -> None:
    store = MemoryStore()
    journal, other = await store.open("chat", registry()), await store.open("chat", registry())
    tasks: list[asyncio.Task[object]] = []
    written: list[str] = []

    async def read_on() -> None:
        async with aclosing(journal.tail()) as tail:
            async for _ in tail:
                await asyncio.sleep(0)

    async def again(id: str) -> None:
        assert not (await journal.append(Said(text=id), session="s", id=id)).created

    for number, step in enumerate(steps):
        if step == "tail":
            tasks.append(asyncio.create_task(read_on()))
        elif step == "yield":
            await asyncio.sleep(0)
        elif step == "open":
            journal._indexes._indexes.clear()
        elif step == "again" and written:
            tasks.append(asyncio.create_task(again(written[number % len(written)])))
        elif step in ("mine", "others"):
            writer = journal if step == "mine" else other
            await writer.append(Said(text=str(number)), session="s", id=str(number))
            written.append(str(number))
    for id in written:
        with pytest.raises(IdConflict):
            await journal.append(Said(text="else"), session="s", id=id)
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert not [result for result in results if isinstance(result, AssertionError)]
    assert [record.id async for record in other.read()] == written
