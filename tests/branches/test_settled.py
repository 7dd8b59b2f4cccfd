"""How far everything is settled: whatever the order of outcomes, and whoever else writes marks."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branches.claims import Claims
from branches.settled import Mark, Settled
from journals import Entry, EntryRegistry, Journal, Lane, MemoryStore, Store, StoreFull, derive_id
from journals._log import Message
from tests.branches.held import held


class Asked(Entry, frozen=True, kw_only=True):
    """Wants an outcome."""


class Told(Entry, frozen=True, kw_only=True):
    """Wants none."""


class AllDone(Mark, frozen=True, kw_only=True):
    """The marks of these tests."""


REGISTRY = EntryRegistry([Asked, Told, AllDone])
MARKS = "work.settled"


def settled_of(journal: Journal, owner: str = "me", every: int = 10) -> Settled:
    return Settled(journal, Claims(journal, owner), AllDone, MARKS, every=every)


async def marks(journal: Journal) -> list[int]:
    return [record.entry.position async for record in journal.read(kinds=["AllDone"])]


def is_mark(message: Message) -> bool:
    return message.headers["Coven-Kind"] == AllDone.kind()


async def see_and_close(settled: Settled, *positions: int) -> None:
    for position in positions:
        settled.see(position, asks=True)
        await settled.close(position)


async def restart(settled: Settled) -> list[int]:
    return [record.position async for record in settled.restart(["Asked"])]


@pytest.fixture
async def journal(store: Store) -> Journal:
    return await store.open("work", REGISTRY)


@pytest.fixture
async def settled(journal: Journal) -> Settled:
    return settled_of(journal)


async def test_everything_before_the_first_that_waits_is_settled(settled: Settled):
    settled.see(3, asks=True)
    settled.see(5, asks=True)
    settled.see(6, asks=False)
    assert (settled.upto, settled.seen, settled.waiting) == (2, 6, 2)
    await settled.close(5)
    assert (settled.upto, settled.waiting) == (2, 1)
    await settled.close(3)
    assert (settled.upto, settled.waiting) == (6, 0)


async def test_what_is_closed_before_the_tail_brings_it_is_never_opened(settled: Settled):
    await settled.close(4)
    assert (settled.upto, settled.seen) == (0, 0)
    settled.see(2, asks=True)
    settled.see(4, asks=True)
    assert (settled.upto, settled.waiting) == (1, 1)
    await settled.close(2)
    assert settled.upto == 4


async def test_closing_twice_changes_nothing(settled: Settled):
    await see_and_close(settled, 1)
    await settled.close(1)
    settled.see(2, asks=True)
    assert (settled.upto, settled.waiting) == (1, 1)


@given(st.data(), st.lists(st.booleans(), min_size=1, max_size=40))
async def test_in_whatever_order_outcomes_come_a_mark_never_passes_what_waits(data: st.DataObject, asks: list[bool]):
    """Some are closed before they are seen; those that are never closed hold the marks back."""
    journal = await MemoryStore().open("work", REGISTRY)
    settled = settled_of(journal, every=3)
    asking = [position for position, asked in enumerate(asks, 1) if asked]
    closing = data.draw(st.lists(st.sampled_from(asking), unique=True)) if asking else []
    closed: set[int] = set()
    seen = 0
    for sees in data.draw(st.permutations([True] * len(asks) + [False] * len(closing))):
        if sees:
            seen += 1
            settled.see(seen, asks=asks[seen - 1])
        else:
            closed.add(closing[len(closed)])
            await settled.close(closing[len(closed) - 1])
        waiting = [position for position in asking if position <= seen and position not in closed]
        assert settled.upto == (min(waiting) - 1 if waiting else seen)
        assert settled.waiting == len(waiting)
        for mark in await marks(journal):
            assert not [position for position in asking if position <= mark and position not in closed]
    written = await marks(journal)
    assert all(later - earlier >= 3 for earlier, later in zip([0, *written], written, strict=False))


async def test_a_mark_is_written_every_so_many_positions_into_a_session_of_its_own(journal: Journal, settled: Settled):
    await see_and_close(settled, *range(1, 26))
    records = [record async for record in journal.read()]
    assert [record.entry for record in records] == [AllDone(position=10), AllDone(position=20)]
    for record in records:
        assert (record.session, record.lane) == (MARKS, Lane.OUT)
        assert record.id == derive_id("settled", record.entry.position)
        assert (record.correlation_id, record.causation_id, record.origin) == (None, None, None)


async def test_a_restart_reads_what_follows_the_newest_mark_up_to_the_end(journal: Journal):
    for _ in range(3):
        await journal.append(Asked(), session="s")
    await see_and_close(settled_of(journal, every=3), 1, 2, 3)
    assert await marks(journal) == [3]
    late = (await journal.append(Asked(), session="s")).record.position
    await journal.append(Told(), session="s")
    settled = settled_of(journal)
    assert await restart(settled) == [late]
    assert settled.upto == settled.seen == await journal.end()
    settled.open([late])
    assert (settled.upto, settled.waiting) == (late - 1, 1)
    assert repr(settled) == f"<Settled work up to {late - 1}, 1 waiting>"


async def test_a_restart_forgets_what_was_open_and_what_was_closed_ahead(settled: Settled):
    settled.see(1, asks=True)
    await settled.close(3)
    await restart(settled)
    assert (settled.upto, settled.waiting) == (0, 0)
    settled.see(3, asks=True)
    assert (settled.upto, settled.waiting) == (2, 1)


async def test_the_next_mark_is_counted_from_the_one_that_was_found(journal: Journal):
    await see_and_close(settled_of(journal), *range(1, 11))
    again = settled_of(journal)
    await restart(again)
    await see_and_close(again, *range(11, 20))
    assert await marks(journal) == [10]
    await see_and_close(again, 20)
    assert await marks(journal) == [10, 20]


async def test_a_mark_of_another_journal_says_nothing_about_this_one(journal: Journal):
    elsewhere = await MemoryStore().open("work", REGISTRY)
    await see_and_close(settled_of(elsewhere, every=100), *range(1, 101))
    foreign = await elsewhere.last(kinds=["AllDone"])
    assert foreign is not None
    asked = (await journal.append(Asked(), session="s")).record.position
    await journal.import_record(foreign)
    assert await restart(settled_of(journal)) == [asked]


async def test_only_the_services_themselves_write_marks(journal: Journal):
    asked = (await journal.append(Asked(), session="s")).record.position
    await journal.append(AllDone(position=100), session=MARKS)
    assert await restart(settled_of(journal)) == [asked]


async def test_the_newest_mark_that_can_be_read_counts(journal: Journal, store: Store):
    class AllDone(Mark, frozen=True, kw_only=True):
        """As a newer program writes it."""

        schema_version = 99

    await see_and_close(settled_of(journal), *range(1, 11))
    newer = await store.open("work", EntryRegistry([AllDone]))
    claim = await newer.claim(MARKS, "newer")
    await newer.append(AllDone(position=20), session=MARKS, expect=claim)
    asked = [(await journal.append(Asked(), session="s")).record.position for _ in range(9)]
    assert await restart(settled_of(journal)) == [position for position in asked if position > 10]


async def test_a_lost_claim_stops_nobody_and_is_taken_back_for_the_next_mark(journal: Journal, store: Store):
    mine = settled_of(journal)
    await see_and_close(mine, *range(1, 11))
    newer = await store.open("work", REGISTRY)
    await newer.claim(MARKS, "somebody newer")
    await see_and_close(mine, *range(11, 21))
    assert await marks(journal) == [10]
    await see_and_close(mine, *range(21, 31))
    assert await marks(journal) == [10, 30]


async def test_two_services_that_keep_marks_go_on_both(journal: Journal, store: Store):
    mine, other = settled_of(journal), settled_of(await store.open("work", REGISTRY), "other")
    for position in range(1, 101):
        await see_and_close(mine, position)
        await see_and_close(other, position)
    written = await marks(journal)
    assert written
    assert set(written) <= set(range(10, 101, 10))


async def test_one_mark_is_written_at_a_time_and_only_its_writer_waits_for_it(journal: Journal):
    journal, log = held(journal, is_mark)
    settled = settled_of(journal)
    await see_and_close(settled, *range(1, 10))
    writer = asyncio.create_task(see_and_close(settled, 10))
    await log.arrived.wait()
    await see_and_close(settled, *range(11, 31))
    assert not writer.done()
    log.released.set()
    await writer
    assert await marks(journal) == [10]
    await see_and_close(settled, 31)
    assert await marks(journal) == [10, 31]


async def test_a_mark_that_cannot_be_stored_is_an_error_and_after_a_restart_it_is_tried_again(journal: Journal):
    journal, log = held(journal, is_mark)
    log.error = StoreFull("no space left")
    log.released.set()
    settled = settled_of(journal)
    with pytest.raises(StoreFull):
        await see_and_close(settled, *range(1, 11))
    log.error = None
    await restart(settled)
    await see_and_close(settled, *range(1, 11))
    assert await marks(journal) == [10]
