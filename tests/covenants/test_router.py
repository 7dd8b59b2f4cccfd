"""The router: each source record has each of its effects exactly once, in order, whatever happens."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from covenants.applied import CovenantApplied
from covenants.dead_letters import DeadLetter
from covenants.redrive import redrive, waiting_letters
from covenants.routing import TransformFailed
from journals import (
    ClaimLost,
    Draft,
    Entry,
    EntryRegistry,
    Lane,
    MemoryStore,
    StoreMismatch,
    Term,
)
from journals._log import Message
from tests.covenants.world import Failed, Ping, Pong, TestRoute, World, numbers, read_letters
from tests.journals.flaky import Crash, flaky


async def test_a_record_arrives_with_what_it_inherits(world: World) -> None:
    source = await world.open("a")
    async with world.routing():
        cause = (
            await source.append(Ping(number=7), session="kitchen", id="x", correlation_id="c", origin="discord")
        ).record
        (record,) = await world.arrive(1)
    assert record.entry == Pong(number=7)
    assert (record.session, record.correlation_id, record.origin) == ("kitchen", "c", "discord")
    assert (record.causation_id, record.route, record.lane) == ("x", "ping", Lane.IN)
    assert cause.route is None


@pytest.mark.parametrize("count", [1, 31, 33, 900])
async def test_order_is_kept_by_ones_and_by_batches(world: World, count: int) -> None:
    await world.ping(count)
    async with world.routing():
        assert numbers(await world.arrive(count)) == list(range(count))
        await world.ping(5, start=count)
        assert numbers(await world.arrive(count + 5)) == list(range(count + 5))


async def test_a_restart_repeats_nothing_and_skips_nothing(world: World) -> None:
    for start in range(0, 60, 20):
        async with world.routing():
            await world.ping(20, start=start)
            await world.arrive(start + 20)
    await world.ping(40, start=60)
    async with world.routing():
        assert numbers(await world.arrive(100)) == list(range(100))


async def test_a_newer_router_takes_over_and_the_older_one_stops(world: World) -> None:
    async with world.routing(owner="older") as older:
        await world.ping(5)
        await world.arrive(5)
        async with world.routing(owner="newer"):
            await world.ping(5, start=5)
            with pytest.raises(BaseExceptionGroup) as caught:
                await asyncio.wait_for(older, 60)
            assert caught.group_contains(ClaimLost, match="now 'newer'")
            assert numbers(await world.arrive(10)) == list(range(10))


@settings(max_examples=40, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(st.lists(st.tuples(st.integers(1, 12), st.sampled_from(["before", "after"])), max_size=6), st.integers(1, 70))
async def test_crashes_anywhere_leave_each_effect_once_and_in_order(crashes: list[tuple[int, str]], count: int) -> None:
    world = World(MemoryStore())
    await world.ping(count)
    for at, when in crashes:
        plan = {at: when}
        world.wrap = lambda journal, plan=plan: flaky(journal, plan.get, Crash)
        async with world.routing() as task:
            target = await world.open("b")
            arrived = asyncio.create_task(target.wait_for(lambda record: record.entry == Pong(number=count - 1)))
            await asyncio.wait({task, arrived}, return_when=asyncio.FIRST_COMPLETED)
            arrived.cancel()
    world.wrap = lambda journal: journal
    async with world.routing():
        assert numbers(await world.arrive(count)) == list(range(count))


@settings(max_examples=40, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(st.dictionaries(st.integers(1, 40), st.sampled_from(["before", "after"]), max_size=12), st.integers(1, 70))
async def test_lost_answers_leave_each_effect_once_and_in_order(plan: dict[int, str], count: int) -> None:
    world = World(MemoryStore())
    await world.ping(count)
    world.wrap = lambda journal: flaky(journal, plan.get)
    async with world.routing():
        assert numbers(await world.arrive(count)) == list(range(count))


async def test_several_effects_of_one_record_arrive_together(world: World) -> None:
    def twice(entry: Ping) -> list[Entry]:
        return [Pong(number=entry.number, part=part) for part in range(entry.number % 3)]

    await world.ping(40)
    async with world.routing(TestRoute(make=twice)):
        await world.ping(9, start=40)
        records = await world.arrive(sum(n % 3 for n in range(49)))
    expected = [(n, part) for n in range(49) for part in range(n % 3)]
    assert [(record.entry.number, record.entry.part) for record in records] == expected  # type: ignore[attr-defined]


async def test_a_failing_transformation_goes_to_the_fault_of_its_route(world: World) -> None:
    def fails(entry: Ping) -> list[Entry]:
        if entry.number % 2:
            raise TransformFailed("odd", "no odd numbers")
        return [Pong(number=entry.number)]

    async with world.routing(TestRoute(make=fails, fault_instance="a")):
        await world.ping(4)
        assert numbers(await world.arrive(2)) == [0, 2]
        back = [record.entry for record in await world.arrive(6, "a")][4:]
    assert back == [Failed(number=1, error="no odd numbers"), Failed(number=3, error="no odd numbers")]


async def test_without_a_fault_it_becomes_a_dead_letter_and_the_route_goes_on(world: World) -> None:
    broken = True

    def fails(entry: Ping) -> list[Entry]:
        if broken and entry.number == 1:
            raise TransformFailed("odd", "not this one")
        return [Pong(number=entry.number)]

    route = TestRoute(make=fails)
    async with world.routing(route):
        await world.ping(3)
        assert numbers(await world.arrive(2)) == [0, 2]
        letters = await world.dead_letters()
        letter = await letters.wait_for(lambda _: True, timeout=60)
    assert isinstance(letter.entry, DeadLetter)
    assert (letter.entry.route, letter.entry.journal, letter.entry.position) == ("ping", "a", 2)
    assert (letter.entry.code, letter.entry.reason) == ("odd", "not this one")

    journals = {name: await world.open(name) for name in "ab"}
    (waiting,) = await waiting_letters(letters)
    assert "fails again" in ((await redrive(waiting, [route], journals, letters)).problem or "")
    broken = False
    for _ in range(2):
        assert (await redrive(waiting, [route], journals, letters)).effects == 1
    assert await waiting_letters(letters) == []
    assert sorted(numbers([record async for record in journals["b"].read()])) == [0, 1, 2]


async def test_a_record_that_nobody_can_decode_is_a_dead_letter_and_not_a_stuck_route(world: World) -> None:
    source = await world.open("a")
    await world.ping(1)
    for headers, body in [({"Coven-Version": "7"}, b"{}"), ({}, b"\xff\xfe"), ({"Coven-Kind": "Vanished"}, b"{}")]:
        message = source._envelope.pack(Draft(entry=Ping(number=0), session="s", id="bad"), Lane.IN, 1.0)
        await source.log.append(msgspec.structs.replace(message, headers={**message.headers, **headers}, body=body))
    await world.ping(1, start=1)
    async with world.routing():
        assert numbers(await world.arrive(2)) == [0, 1]
        letters = [record.entry for record in await read_letters(world, 3)]
    assert [(letter.code, letter.source_kind) for letter in letters] == [
        ("unreadable", "Ping"),
        ("unreadable", "Ping"),
        ("unreadable", "Vanished"),
    ]


async def test_an_effect_that_cannot_be_stored_is_a_dead_letter(world: World) -> None:
    def surrogate(entry: Ping) -> list[Entry]:
        return [Failed(number=entry.number, error="\ud800")]

    async with world.routing(TestRoute(make=surrogate)):
        await world.ping(1)
        (letter,) = await read_letters(world, 1)
    assert letter.entry.code == "not_storable"


async def test_imported_records_are_never_routed(world: World) -> None:
    other = await world.store.open("elsewhere", EntryRegistry((Ping, Pong, Failed)))
    original = (await other.append(Ping(number=99), session="s")).record
    await (await world.open("a")).import_record(original)
    await world.ping(1)
    async with world.routing():
        assert numbers(await world.arrive(1)) == [0]


async def test_a_new_coven_begins_at_the_beginning_and_a_later_route_at_the_end(world: World) -> None:
    def other(entry: Ping) -> list[Entry]:
        return [Pong(number=entry.number, part=1)]

    await world.ping(3)
    async with world.routing():
        await world.arrive(3)
    added = TestRoute(name="added", make=other)
    async with world.routing(TestRoute(), added):
        await world.ping(2, start=3)
        records = await world.arrive(7)
    parts = [(r.entry.number, r.entry.part) for r in records]  # type: ignore[attr-defined]
    assert parts == [(0, 0), (1, 0), (2, 0), (3, 0), (3, 1), (4, 0), (4, 1)]


async def test_a_later_route_may_ask_for_the_beginning(world: World) -> None:
    def other(entry: Ping) -> list[Entry]:
        return [Pong(number=entry.number, part=1)]

    await world.ping(40)
    async with world.routing():
        await world.arrive(40)
    added = TestRoute(name="added", make=other, from_beginning=True)
    for _ in range(2):
        async with world.routing(TestRoute(), added):
            records = await world.arrive(80)
    assert [r.entry.number for r in records if r.entry.part == 1] == list(range(40))  # type: ignore[attr-defined]
    assert [r.entry.number for r in records if r.entry.part == 0] == list(range(40))  # type: ignore[attr-defined]


async def test_an_edited_route_keeps_its_place(world: World) -> None:
    def edited(entry: Ping) -> list[Entry]:
        return [Pong(number=entry.number, part=9)]

    await world.ping(2)
    async with world.routing():
        await world.arrive(2)
    await world.ping(1, start=2)
    async with world.routing(TestRoute(make=edited)):
        records = await world.arrive(3)
    assert [(r.entry.number, r.entry.part) for r in records] == [(0, 0), (1, 0), (2, 9)]  # type: ignore[attr-defined]


async def test_a_declared_cycle_ends_after_its_hops(world: World) -> None:
    def on(entry: Any) -> list[Entry]:
        return [Ping(number=entry.number + 1)]

    there = TestRoute(name="there", max_hops=3, make=on)
    back = TestRoute(name="back", source_instance="b", target_instance="a", make=on)
    async with world.routing(there, back):
        await world.ping(1)
        (letter,) = await read_letters(world, 1)
    assert letter.entry.code == "max_hops"
    assert len([record async for record in (await world.open("b")).read()]) == 3


async def test_chunks_are_carried_from_now_on(world: World) -> None:
    chunks = await world.open("a-chunks")
    await chunks.append(Ping(number=0), session="s")
    async with world.routing(TestRoute(short_lived=True)):
        target = await world.open("b-chunks")
        for number in range(1, 50):
            await chunks.append(Ping(number=number), session="s")
            if [record async for record in target.read()]:
                break
        first = await target.wait_for(lambda _: True, timeout=60)
    assert first.entry.number >= 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("round", range(4))
async def test_of_two_routers_that_start_at_once_the_later_one_stays(world: World, round: int) -> None:
    await world.ping(3)
    routers = [await world.router(owner=owner) for owner in ("one", "two")]
    tasks = {asyncio.create_task(router.run(lambda: None)) for router in routers}
    for number in range(3, 40):
        await world.ping(1, start=number)
        done, _ = await asyncio.wait(tasks, timeout=0)
        if done:
            break
    else:  # the older one learns of it at its next write
        done, _ = await asyncio.wait(tasks, timeout=60, return_when=asyncio.FIRST_COMPLETED)
    (lost,) = done
    assert isinstance(lost.exception(), ClaimLost) or lost.exception().subgroup(ClaimLost)  # type: ignore[union-attr]
    (stays,) = tasks - done
    await world.ping(1, start=99)
    count = len([record async for record in (await world.open("a")).read()])
    assert numbers(await world.arrive(count)) == [*range(count - 1), 99]
    assert not stays.done()
    stays.cancel()
    await asyncio.wait([stays])


async def test_an_older_router_that_wakes_up_takes_nothing_back(world: World) -> None:
    journal = await world.open("b")
    older, newer = journal.cursor("a", "older", Term("x", 1)), journal.cursor("a", "newer", Term("x", 2))
    await older.take("i")
    await newer.take("i")
    for attempt in (older.save(7, 7), older.take("i"), journal.cursor("a", "older", Term("x", 1)).take("i")):
        with pytest.raises(ClaimLost, match="now 'newer'"):
            await attempt
    await newer.save(3, 3)
    stranger = journal.cursor("a", "stranger", Term("another system journal", 1))
    assert await stranger.take("i") == 3
    with pytest.raises(ClaimLost, match="now 'stranger'"):
        await newer.take("i")


async def test_what_others_write_on_a_cursor_is_passed_over(world: World) -> None:
    target = await world.open("b")
    async with world.routing() as task:
        for start in range(0, 60, 20):
            await world.ping(20, start=start)
            await world.arrive(start + 20)
            await target.log.append(Message("cursor.a", {}, b'{"own'))
        await world.ping(1, start=60)
        await world.arrive(61)
        assert not task.done()
    await target.log.append(Message("cursor.a", {}, b""))
    for source in ("garbage", "a:x", "a:x:y", f"a:{(await world.open('a')).log.incarnation}:many"):
        await target.log.append(Message("in.s", {"Coven-Source": source}, b""))
    async with world.routing():
        await world.ping(1, start=61)
        assert numbers(await world.arrive(62)) == list(range(62))


@pytest.mark.parametrize("fault", [None, "a"])
@pytest.mark.parametrize(
    ("subject", "headers"),
    [
        ("in.s", {"Coven-Correlation": "\u00e9"}),
        ("in.s", {"Coven-Correlation": "a\nNats-Rollup: all"}),
        ("in.s", {"Coven-Id": "\u65e5", "Coven-Origin": "\u672c"}),
        ("in.s", {"Coven-Correlation": "x" * 20_000}),
        ("in.s", {"Coven-Version": "x"}),
        ("in.s", {"Coven-Blob": "no"}),
        ("in", {}),
        ("in.a.b", {}),
        ("in." + "x" * 900, {}),
    ],
)
async def test_an_envelope_that_others_wrote_sticks_no_route(
    world: World, subject: str, headers: dict[str, str], fault: str | None
) -> None:
    source = await world.open("a")
    async with world.routing(TestRoute(fault_instance=fault)):
        await world.ping(1)
        message = Message(subject, {"Coven-Kind": "Ping", "Coven-Id": "f", **headers}, b'{"kind":"Ping","number":7}')
        position = await source.log.append(message)
        await world.ping(1, start=1)
        assert numbers(await world.arrive(2)) == [0, 1]
        (letter,) = await read_letters(world, 1)
    assert letter.entry.position == position
    journals = {name: await world.open(name) for name in "abc"}
    assert (await redrive(letter, [TestRoute()], journals, await world.dead_letters())).problem


async def test_a_fault_that_cannot_be_stored_is_a_dead_letter(world: World) -> None:
    def fails(entry: Ping) -> list[Entry]:
        raise TransformFailed("via", "\ud800" + "x" * 10_000)

    async with world.routing(TestRoute(make=fails, fault_instance="b")):
        await world.ping(1)
        (letter,) = await read_letters(world, 1)
    assert letter.entry.code == "via"
    assert letter.entry.reason.startswith("?x")
    assert len(letter.entry.reason) == 4000


@pytest.mark.parametrize("count", [1, 40])
async def test_a_record_that_becomes_more_than_a_batch_is_a_dead_letter(world: World, count: int) -> None:
    def many(entry: Ping) -> list[Entry]:
        return [Pong(number=entry.number, part=part) for part in range(5000 if entry.number == 0 else 1)]

    await world.ping(count)
    async with world.routing(TestRoute(make=many)):
        await world.ping(1, start=count)
        (letter,) = await read_letters(world, 1)
        assert numbers(await world.arrive(count)) == list(range(1, count + 1))
    assert (letter.entry.code, letter.entry.position) == ("too_many", 1)


async def test_a_route_that_gets_another_target_goes_on_there_where_it_stood(world: World) -> None:
    await world.ping(5)
    async with world.routing():
        await world.arrive(5)
    await world.ping(2, start=5)
    for _ in range(2):
        async with world.routing(TestRoute(target_instance="c")):
            assert numbers(await world.arrive(2, "c")) == [5, 6]
    assert numbers(await world.arrive(5)) == list(range(5))


async def test_a_fault_that_is_added_later_is_for_what_fails_from_now_on(world: World) -> None:
    def fails(entry: Ping) -> list[Entry]:
        raise TransformFailed("odd", "never")

    await world.ping(3)
    async with world.routing(TestRoute(make=fails)):
        await read_letters(world, 3)
    async with world.routing(TestRoute(make=fails, fault_instance="c")):
        await world.ping(1, start=3)
        assert numbers(await world.arrive(1, "c")) == [3]


@pytest.mark.parametrize("first", [True, False])
async def test_a_route_that_is_there_is_not_sent_to_the_beginning_by_an_edit(world: World, first: bool) -> None:
    await world.ping(3)
    for edited in (first, not first, first):
        async with world.routing(TestRoute(from_beginning=edited)):
            assert numbers(await world.arrive(3)) == [0, 1, 2]
    async with world.routing(TestRoute(from_beginning=not first)):
        await world.ping(1, start=3)
        assert numbers(await world.arrive(4)) == [0, 1, 2, 3]


async def test_a_route_that_gets_another_source_begins_at_its_end(world: World) -> None:
    await world.ping(3)
    other = await world.open("c")
    await other.append(Ping(number=70), session="s")
    async with world.routing():
        await world.arrive(3)
    async with world.routing(TestRoute(source_instance="c")):
        await other.append(Ping(number=71), session="s")
        assert numbers(await world.arrive(4)) == [0, 1, 2, 71]


async def test_a_letter_about_a_record_of_another_incarnation_is_not_sent(world: World) -> None:
    def fails(entry: Ping) -> list[Entry]:
        raise TransformFailed("odd", "never")

    async with world.routing(TestRoute(make=fails)):
        await world.ping(2)
        first, second = await read_letters(world, 2)
    journals = {name: await world.open(name) for name in "abc"}
    moved = msgspec.structs.replace(first, entry=second.entry)
    redriven = await redrive(moved, [TestRoute()], journals, await world.dead_letters())
    assert "no longer has its source record" in (redriven.problem or "")


async def test_a_covenant_that_a_newer_version_recorded_is_not_mistaken_for_none(world: World) -> None:
    system = await world.store.open("coven", EntryRegistry((CovenantApplied,)))
    headers = {"Coven-Kind": "CovenantApplied", "Coven-Id": "x", "Coven-Version": "9"}
    await system.log.append(Message("out.covenant", headers, b"{}"))
    with pytest.raises(StoreMismatch, match="upgrade Coven here"):
        await (await world.router()).run(lambda: None)
