"""Whatever is lost on the way, every append happens once, and `created` is said exactly once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journals import Appended, ClaimLost, Draft, MemoryStore, Store, Unacknowledged
from tests.journals.flaky import Crash, flaky
from tests.journals.kinds import Said, registry

losses = st.dictionaries(st.integers(1, 12), st.sampled_from(["before", "after"]), max_size=8)


@given(losses)
async def test_appends_happen_once_and_in_order(plan: dict[int, str]) -> None:
    store = MemoryStore()
    journal = flaky(await store.open("chat", registry()), plan.get)
    appended = [await journal.append(Said(text="x", number=n), session="s", id=str(n)) for n in range(5)]
    assert all(each.created for each in appended)
    stored = [record async for record in (await store.open("chat", registry())).read()]
    assert stored == [each.record for each in appended]


@given(losses)
async def test_batches_happen_once_or_not_at_all(plan: dict[int, str]) -> None:
    store = MemoryStore()
    journal = flaky(await store.open("chat", registry()), plan.get)
    for part in range(3):
        drafts = [Draft(entry=Said(text="x", number=n), session="s", id=f"{part}-{n}") for n in range(4)]
        assert all(each.created for each in await journal.append_all(drafts))
    ids = [record.id async for record in journal.read()]
    assert ids == [f"{part}-{n}" for part in range(3) for n in range(4)]


@given(losses)
async def test_a_claim_is_held_whatever_is_lost(plan: dict[int, str]) -> None:
    store = MemoryStore()
    journal = flaky(await store.open("chat", registry()), plan.get)
    claim = await journal.claim("s", "me")
    assert (await journal.append(Said(text="x"), session="s", expect=claim)).created
    await (await store.open("chat", registry())).claim("s", "you")
    with pytest.raises(ClaimLost):
        await journal.append(Said(text="y"), session="s", expect=claim)


@given(st.integers(1, 6), st.sampled_from(["before", "after"]))
async def test_after_a_crash_the_next_writer_goes_on(crash_at: int, when: str) -> None:
    store = MemoryStore()
    created: list[Appended] = []
    plan = {crash_at: when}
    for journal in (flaky(await store.open("chat", registry()), plan.get, Crash), await store.open("chat", registry())):
        try:
            for number in range(4):
                created.append(await journal.append(Said(text="x", number=number), session="s", id=str(number)))
        except Crash:
            created.clear()
    ids = [record.id async for record in journal.read()]
    assert ids == ["0", "1", "2", "3"]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_on_the_real_store_too(store: Store, when: str) -> None:
    inner = await store.open("chat", registry())
    journal = flaky(inner, {2: when, 5: when}.get, Unacknowledged)
    appended = [await journal.append(Said(text="x", number=n), session="s", id=str(n)) for n in range(6)]
    assert all(each.created for each in appended)
    assert [record async for record in inner.read()] == [each.record for each in appended]
