"""Approvals over time: days, restarts and crashes, many at once; each effect is written once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from branches.chat.entries import ChatAnswer, ChatQuestion
from covenants.redrive import waiting_letters
from journals import Draft, MemoryStore
from tests.covenants.approvals import ASKED, ROUTE, answer, questions, written
from tests.covenants.world import TestRoute, World, numbers
from tests.journals.flaky import Crash, flaky


async def test_days_may_pass_and_restarts(world: World) -> None:
    async with world.routing(ROUTE):
        await world.ping(3)
        asked = await questions(world, 3)
    await answer(world, asked[2])
    async with world.routing(ROUTE):
        await world.arrive(1)
    await answer(world, asked[0])
    for _ in range(2):
        async with world.routing(ROUTE):
            assert numbers(await world.arrive(2)) == [2, 0]
    async with world.routing(ROUTE):
        assert len(await questions(world, 3)) == 3
        assert await written(world) == [2, 0]


@pytest.mark.parametrize("count", [33, 901])
async def test_many_are_asked_and_answered_at_once(world: World, count: int) -> None:
    async with world.routing(ROUTE):
        await world.ping(count)
        asked = await questions(world, count)
        drafts = [
            Draft(
                entry=ChatAnswer(correlation_id=q.entry.correlation_id, answer="yes", by="ada"),
                session=q.session,
                id=q.id + "a",
            )
            for q in asked[:33]
        ]
        await (await world.open("c")).append_all(drafts)
        assert numbers(await world.arrive(33)) == list(range(33))


async def live(world: World, count: int, lives: list[dict[int, str]], error: type[Exception]) -> None:
    """So many questions, each answered once, odd numbers with no, while routers crash by plan; then one does not."""
    await world.ping(count)
    answered: set[str] = set()

    async def person() -> None:
        chat = await world.open("c")
        async for record in chat.tail(0, kinds=[ChatQuestion.kind()]):
            question: Any = record
            if question.entry.correlation_id not in answered:
                answered.add(question.entry.correlation_id)
                odd = '"number":1' in question.entry.question or '"number":3' in question.entry.question
                await answer(world, question, "no" if odd else "yes", id=record.id + "a")

    someone = asyncio.create_task(person())
    for plan in lives:
        world.wrap = lambda journal, plan=plan: flaky(journal, plan.get, error)
        async with world.routing(ROUTE) as task:
            evens = asyncio.create_task(world.arrive((count + 1) // 2))
            await asyncio.wait({task, evens}, return_when=asyncio.FIRST_COMPLETED)
            evens.cancel()
    world.wrap = lambda journal: journal
    async with world.routing(ROUTE):
        assert await asyncio.wait_for(world.arrive((count + 1) // 2), 60)
        someone.cancel()
        await asyncio.gather(someone, return_exceptions=True)
        assert sorted(await written(world)) == list(range(0, count, 2))
        assert len(await questions(world, count + 1)) == count + 1
    assert await waiting_letters(await world.dead_letters()) == []


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", range(1, 13))
async def test_a_crash_at_any_write_leaves_each_effect_once(at: int, when: str) -> None:
    await live(World(MemoryStore()), 2, [{at: when}], Crash)


@settings(max_examples=30, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(
    st.lists(st.dictionaries(st.integers(1, 14), st.sampled_from(["before", "after"]), max_size=3), max_size=5),
    st.integers(1, 4),
)
async def test_crashes_anywhere_leave_each_effect_once(lives: list[dict[int, str]], count: int) -> None:
    await live(World(MemoryStore()), count, lives, Crash)


async def test_a_route_that_comes_to_need_an_approval_goes_on_where_it_stood(world: World) -> None:
    await world.ping(2)
    async with world.routing(TestRoute()):
        await world.arrive(2)
    await world.ping(1, start=2)
    async with world.routing(ROUTE):
        (question,) = await questions(world, 1)
        assert '"number":2' in question.entry.question
    await world.ping(1, start=3)
    async with world.routing(TestRoute()):
        await answer(world, question)
        assert numbers(await world.arrive(3)) == [0, 1, 3]
    async with world.routing(ROUTE):
        assert await written(world) == [0, 1, 3]


async def test_from_the_beginning_it_asks_about_all_there_is(world: World) -> None:
    await world.ping(2)
    async with world.routing(TestRoute(name="other", target_instance="a", source_kind="Pong")):
        pass
    for _ in range(2):
        async with world.routing(
            TestRoute(name="other", target_instance="a", source_kind="Pong"),
            TestRoute(approval=ASKED, from_beginning=True),
        ):
            first, second = await questions(world, 2)
    async with world.routing(
        TestRoute(name="other", target_instance="a", source_kind="Pong"), TestRoute(approval=ASKED, from_beginning=True)
    ):
        await answer(world, second)
        await answer(world, first)
        assert await written(world) == [1, 0]
