"""Editing a covenant: whatever crashed before, each effect comes once, and no router of before writes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from covenants.routing import TransformFailed
from journals import ClaimLost, Entry, JetStreamStore, Journal, MemoryStore, StoreFull
from tests.covenants.world import Failed, Ping, Pong, TestRoute, World, numbers, read_letters
from tests.journals.flaky import Crash, flaky

ECHO = 7


def evens(entry: Any) -> list[Entry]:
    if entry.number % 2:
        raise TransformFailed("odd", "no odd numbers")
    return [Pong(number=entry.number)]


def echo(entry: Any) -> list[Entry]:
    return [Pong(number=entry.number, part=ECHO)]


def covenant(target: str, fault: str | None = None) -> tuple[TestRoute, TestRoute]:
    """Even numbers to the target, odd ones to the fault or the dead letters; and all of them to c."""
    return (
        TestRoute(target_instance=target, fault_instance=fault, make=evens),
        TestRoute(name="echo", target_instance="c", make=echo),
    )


async def found(world: World) -> dict[str, list[Any]]:
    """What has come: the numbers that `ping` carried, those that it failed at, and those that `echo` carried."""
    records = [record for name in "bc" async for record in (await world.open(name)).read()]
    entries: list[Any] = [record.entry for record in records]
    letters = [record.entry async for record in (await world.dead_letters()).read()]
    return {
        "carried": sorted(e.number for e in entries if isinstance(e, Pong) and e.part != ECHO),
        "failed": sorted(
            [e.number for e in entries if isinstance(e, Failed)] + [letter.position - 1 for letter in letters]  # type: ignore[attr-defined]
        ),
        "echoed": sorted(e.number for e in entries if isinstance(e, Pong) and e.part == ECHO),
    }


def expected(count: int) -> dict[str, list[int]]:
    return {
        "carried": list(range(0, count, 2)),
        "failed": list(range(1, count, 2)),
        "echoed": list(range(count)),
    }


async def route_until_done(world: World, routes: tuple[TestRoute, ...], count: int) -> None:
    """Route until all has come that should have, or the router crashes."""
    async with world.routing(*routes) as task:
        for _ in range(5000):
            if task.done() or await found(world) == expected(count):
                return
            await asyncio.wait({task}, timeout=0)


def crashing(world: World, journal: str, operation: int, when: str) -> None:
    """Let the router crash at an operation on a journal."""

    def wrap(each: Journal) -> Journal:
        return flaky(each, {operation: when}.get, Crash) if each.name == journal else each

    world.wrap = wrap


EDITS = [("b", None), ("c", None), ("b", "c"), ("c", "b"), ("b", "b"), ("c", "c")]


@pytest.mark.parametrize("crashed", ["b", "c", "dead-letters"])
@pytest.mark.parametrize("edited", EDITS)
async def test_an_edit_after_a_crash_amid_a_batch_skips_nothing_and_repeats_nothing(
    world: World, crashed: str, edited: tuple[str, str | None]
) -> None:
    await world.ping(50)
    crashing(world, crashed, 3, "before")  # two operations take the cursor over, the third is the batch
    await route_until_done(world, covenant("b"), 50)
    assert await found(world) != expected(50)
    world.wrap = lambda journal: journal
    for _ in range(2):
        await route_until_done(world, covenant(*edited), 50)
        assert await found(world) == expected(50)
    await world.ping(3, start=50)
    await route_until_done(world, covenant(*edited), 53)
    assert await found(world) == expected(53)


steps = st.tuples(
    st.integers(0, 45), st.sampled_from(EDITS), st.sampled_from(["b", "c", "dead-letters"]), st.integers(1, 12),
    st.sampled_from(["before", "after"]),
)  # fmt: skip


@settings(max_examples=40, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(st.lists(steps, max_size=5), st.sampled_from(EDITS))
async def test_any_edits_and_crashes_leave_each_effect_once(
    history: list[tuple[int, tuple[str, str | None], str, int, str]], last: tuple[str, str | None]
) -> None:
    world, count = World(MemoryStore()), 1
    await world.ping(1)
    for more, edited, journal, operation, when in history:
        if more:
            await world.ping(more, start=count)
            count += more
        crashing(world, journal, operation, when)
        await route_until_done(world, covenant(*edited), count)
    world.wrap = lambda journal: journal
    await route_until_done(world, covenant(*last), count)
    assert await found(world) == expected(count)


async def test_an_older_router_writes_nothing_more_where_no_route_leads_any_more(world: World) -> None:
    journal = await world.open("a")
    aside = TestRoute(name="aside", source_kind="Pong", target_instance="c", make=lambda entry: [entry])
    async with world.routing(TestRoute(), aside, owner="older") as older:
        await journal.append(Pong(number=1), session="s")
        await world.arrive(1, "c")
        async with world.routing(TestRoute(), owner="newer"):
            await journal.append(Pong(number=2), session="s")
            with pytest.raises(BaseExceptionGroup) as caught:
                await asyncio.wait_for(older, 60)
            assert caught.group_contains(ClaimLost, match="now 'newer'")
            await journal.append(Ping(number=3), session="s")
            assert numbers(await world.arrive(1)) == [3]
    assert numbers([record async for record in (await world.open("c")).read()]) == [1]


async def delete(world: World, name: str) -> None:
    if isinstance(world.store, JetStreamStore):
        await world.store.connection.api(f"STREAM.DELETE.{world.store.coven}-{name}")
    else:
        world.store._logs.pop(name)  # type: ignore[attr-defined]


@pytest.mark.parametrize("count", [3, 50])
async def test_a_target_that_was_deleted_is_not_filled_with_the_past(
    world: World, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    await world.ping(count)
    async with world.routing():
        await world.arrive(count)
    await delete(world, "b")
    for number in range(count, count + 3):
        async with world.routing():
            await world.ping(1, start=number)
            assert numbers(await world.arrive(number - count + 1)) == list(range(count, number + 1))
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert said.startswith(f"journal b was deleted and made anew, and what had been routed into it is gone with it; "
                           f"ping goes on behind position {count} of a")  # fmt: skip


async def test_a_route_from_the_beginning_fills_a_target_that_was_deleted_again(world: World) -> None:
    async with world.routing():
        await world.ping(3)
        await world.arrive(3)
    routes = (TestRoute(), TestRoute(name="all", target_instance="c", from_beginning=True))
    async with world.routing(*routes):
        await world.arrive(3, "c")
    await delete(world, "c")
    async with world.routing(*routes):
        await world.ping(1, start=3)
        assert numbers(await world.arrive(4, "c")) == [0, 1, 2, 3]


async def test_dead_letters_that_were_deleted_do_not_come_again(world: World) -> None:
    def fails(entry: Any) -> list[Entry]:
        raise TransformFailed("odd", "never")

    route = TestRoute(make=fails)
    async with world.routing(route):
        await world.ping(3)
        await read_letters(world, 3)
    await delete(world, "dead-letters")
    async with world.routing(route):
        await world.ping(1, start=3)
        (letter,) = await read_letters(world, 1)
    assert letter.entry.position == 4


@pytest.mark.parametrize("store", ["jetstream"], indirect=True)
async def test_a_target_that_is_full_stops_the_router_and_loses_nothing(store: JetStreamStore, world: World) -> None:
    async def limit(size: int) -> None:
        name = f"{store.coven}-b"
        info = await store.connection.api(f"STREAM.INFO.{name}")
        answer = await store.connection.api(f"STREAM.UPDATE.{name}", {**info["config"], "max_bytes": size})
        assert "error" not in answer

    await world.open("b")
    await limit(8_000)
    await world.ping(200)
    for _ in range(2):
        async with world.routing() as task:
            await asyncio.wait([task], timeout=60)
            with pytest.raises((StoreFull, BaseExceptionGroup)) as caught:
                task.result()
            assert isinstance(caught.value, StoreFull) or caught.group_contains(StoreFull, match="raise the limit")
    await limit(-1)
    async with world.routing():
        assert numbers(await world.arrive(200)) == list(range(200))


NAMES = ["\u00fc \U0001f408 a.b*c>d", "a/b@3", "..", "$JS.API", "x" * 150, "cursor.a"]


@pytest.mark.parametrize("name", NAMES)
async def test_a_route_of_any_name_keeps_its_place(world: World, name: str) -> None:
    routes = (TestRoute(), TestRoute(name=name, target_instance="c", from_beginning=True))
    async with world.routing():
        await world.ping(3)
        await world.arrive(3)
    for count in (3, 4, 5):
        async with world.routing(*routes):
            assert numbers(await world.arrive(count, "c")) == list(range(count))
            await world.ping(1, start=count)
            assert numbers(await world.arrive(count + 1)) == list(range(count + 1))
            assert numbers(await world.arrive(count + 1, "c")) == list(range(count + 1))
