"""Routes that need an approval: what was approved is written, and nothing else, also when the route was edited."""

from __future__ import annotations

from typing import Any

import pytest

from branches.chat.entries import ChatAnswer
from covenants.redrive import redrive, waiting_letters
from covenants.routing import Approval
from journals import Draft, Entry
from tests.covenants.approvals import ASKED, ROUTE, SIGNED, answer, ask_and_answer, questions, resend, written
from tests.covenants.world import Failed, Ping, Pong, TestRoute, World, numbers, read_letters


def larger(entry: Any) -> list[Entry]:
    return [Pong(number=entry.number, part=9)]


async def test_a_person_is_asked_and_what_was_approved_stands_where_it_would_have_stood(world: World) -> None:
    source = await world.open("a")
    async with world.routing(ROUTE):
        envelope = {"session": "kitchen", "id": "x", "correlation_id": "q1", "origin": "discord"}
        await source.append(Ping(number=7), **envelope)
        (question,) = await questions(world, 1)
        assert [record async for record in (await world.open("b")).read()] == []
        said = await answer(world, question)
        (record,) = await world.arrive(1)
    assert question.entry.question == 'May I send to b: Pong {"number":7,"part":0}?'
    assert (question.entry.choices, question.entry.approvers) == (("yes", "no"), ())
    assert (question.session, question.causation_id, question.route) == ("kitchen", "x", "ping")
    assert record.entry == Pong(number=7)
    assert (record.session, record.correlation_id, record.origin, record.route) == ("kitchen", "q1", "discord", "ping")
    assert record.causation_id == said


@pytest.mark.parametrize("text", ["no", "No", "yes please", ""])
async def test_anything_but_yes_is_a_no_and_nothing_comes_of_it(world: World, text: str) -> None:
    async with world.routing(ROUTE):
        await ask_and_answer(world, text)
        assert await written(world) == []
    assert await waiting_letters(await world.dead_letters()) == []


@pytest.mark.parametrize("text", ["yes", "Yes", " YES "])
async def test_yes_is_a_yes(world: World, text: str) -> None:
    async with world.routing(ROUTE):
        await ask_and_answer(world, text)
        assert await written(world) == [0]


async def test_a_no_goes_to_the_fault_of_the_route(world: World) -> None:
    async with world.routing(TestRoute(approval=ASKED, fault_instance="a")):
        await ask_and_answer(world, "no", "eve")
        back = (await world.arrive(2, "a"))[1]
    assert back.entry == Failed(number=0, error="eve has not approved it")


async def test_who_may_not_approve_does_not_and_it_can_be_asked_again(world: World) -> None:
    async with world.routing(SIGNED):
        await ask_and_answer(world, by="eve")
        (letter,) = await read_letters(world, 1)
        assert letter.entry.code == "not_an_approver"
        assert (letter.entry.route, letter.entry.journal, letter.entry.position) == ("ping", "a", 1)
        journals = {name: await world.open(name) for name in "abc"}
        for _ in range(2):  # as after a crash in the middle of it
            assert (await redrive(letter, [SIGNED], journals, await world.dead_letters())).effects == 1
        first, again = await questions(world, 2)
        assert again.entry.question == first.entry.question
        await answer(world, first, by="bob")  # it has been answered
        await answer(world, again, by="bob")
        assert await written(world) == [0]


async def test_who_may_approve_is_looked_at_when_it_runs(world: World) -> None:
    async with world.routing(SIGNED):
        await world.ping(1)
        (question,) = await questions(world, 1)
    async with world.routing(TestRoute(approval=Approval("c", approvers=("bob",)))):
        await answer(world, question, by="ada")
        (letter,) = await read_letters(world, 1)
    assert letter.entry.code == "not_an_approver"


async def test_what_an_edited_route_makes_is_not_what_was_approved(world: World) -> None:
    async with world.routing(ROUTE):
        await world.ping(1)
        (first,) = await questions(world, 1)
    edited = TestRoute(approval=ASKED, make=larger)
    async with world.routing(edited):
        await answer(world, first)
        (letter,) = await read_letters(world, 1)
        assert letter.entry.code == "changed"
        assert "sent again, it asks again" in letter.entry.reason
        assert await resend(world, edited) == [None]
        _, again = await questions(world, 2)
        assert again.entry.question == 'May I send to b: Pong {"number":0,"part":9}?'
        await answer(world, first)
        await answer(world, again)
        (record,) = await world.arrive(1)
    assert record.entry == Pong(number=0, part=9)


@pytest.mark.parametrize(
    "edited",
    [
        TestRoute(approval=ASKED, make=lambda entry: []),
        TestRoute(approval=ASKED, target_instance="a"),
        TestRoute(approval=ASKED, make=lambda entry: [Pong(number=entry.number)] * 2),
    ],
    ids=["nothing now", "another target", "more"],
)
async def test_an_approval_is_for_that_target_and_for_all_of_it(world: World, edited: TestRoute) -> None:
    async with world.routing(ROUTE):
        await world.ping(1)
        (question,) = await questions(world, 1)
    async with world.routing(edited):
        await answer(world, question)
        (letter,) = await read_letters(world, 1)
    assert letter.entry.code == "changed"
    assert [record async for record in (await world.open("b")).read()] == []


async def test_an_edit_that_is_taken_back_leaves_the_approval_as_it_was(world: World) -> None:
    async with world.routing(ROUTE):
        await world.ping(1)
        (question,) = await questions(world, 1)
    async with world.routing(TestRoute(approval=ASKED, make=larger)):
        pass
    async with world.routing(ROUTE):
        await answer(world, question)
        assert await written(world) == [0]


@pytest.mark.parametrize("effects", [1, 2])
@pytest.mark.parametrize("count", [1, 40])
async def test_an_edited_route_does_not_look_again_at_what_was_approved_before(
    world: World, count: int, effects: int
) -> None:
    route = TestRoute(approval=ASKED, make=lambda entry: [Pong(number=entry.number)] * effects)
    async with world.routing(route):
        await world.ping(count)
        asked = await questions(world, count)
    entries = [ChatAnswer(correlation_id=each.entry.correlation_id, answer="yes", by="ada") for each in asked]
    drafts = [Draft(entry=entry, session="s", id=str(n)) for n, entry in enumerate(entries)]
    await (await world.open("c")).append_all(drafts)
    async with world.routing(route):
        await world.arrive(count * effects)
    async with world.routing(TestRoute(approval=ASKED, make=larger)):
        await ask_and_answer(world, number=count)
        records = await world.arrive(count * effects + 1)
    assert numbers(records) == [*(number for number in range(count) for _ in range(effects)), count]
    assert await waiting_letters(await world.dead_letters()) == []


async def test_what_was_refused_stays_so_when_the_edit_is_taken_back(world: World) -> None:
    async with world.routing(ROUTE):
        await world.ping(1)
        (question,) = await questions(world, 1)
    async with world.routing(TestRoute(approval=ASKED, make=larger)):
        await answer(world, question)
        await read_letters(world, 1)
    async with world.routing(ROUTE):
        assert await written(world) == []
    assert len(await waiting_letters(await world.dead_letters())) == 1


async def test_the_end_of_what_is_huge_counts_as_well(world: World) -> None:
    def long(end: str) -> TestRoute:
        return TestRoute(
            fault_instance=None, approval=ASKED, make=lambda entry: [Failed(number=0, error="x" * 5_000 + end)]
        )

    async with world.routing(long("a")):
        await world.ping(1)
        (question,) = await questions(world, 1)
    async with world.routing(long("b")):
        await answer(world, question)
        (letter,) = await read_letters(world, 1)
    assert letter.entry.code == "changed"
