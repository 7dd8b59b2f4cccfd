"""Answers to the questions of routes: which of them count, and for which record."""

from __future__ import annotations

import msgspec
import pytest

from branches.chat.entries import ChatAnswer
from covenants.redrive import waiting_letters
from journals import Draft, Lane, MemoryStore
from tests.covenants.approvals import ASKED, ROUTE, SIGNED, answer, questions, resend, written
from tests.covenants.world import Ping, TestRoute, World, read_letters


@pytest.mark.parametrize("texts", [("yes", "yes"), ("no", "yes"), ("yes", "no")])
@pytest.mark.parametrize("at_once", [True, False])
async def test_of_two_answers_the_first_counts(world: World, texts: tuple[str, str], at_once: bool) -> None:
    async with world.routing(ROUTE):
        await world.ping(1)
        (question,) = await questions(world, 1)
        if at_once:
            id, session = question.entry.correlation_id, question.session
            entries = [ChatAnswer(correlation_id=id, answer=text, by="ada") for text in texts]
            drafts = [Draft(entry=entry, session=session, id=str(n)) for n, entry in enumerate(entries)]
            await (await world.open("c")).append_all(drafts)
        else:
            for text in texts:
                await answer(world, question, text)
        assert await written(world) == ([0] if texts[0] == "yes" else [])


async def test_an_answer_that_belongs_to_no_question_is_nothing(world: World) -> None:
    async with world.routing(SIGNED):
        await world.ping(1)
        (question,) = await questions(world, 1)
        id = question.entry.correlation_id
        forged = [id[:-1] + "x", id.replace(".1.", ".2."), "approve.x.1.0.x", "approve", "approve.a.b.c.d", "c1", ""]
        forged += [id.replace(".1.", f".{position}.") for position in ("0", "01", "9" * 5000)]
        for wrong in forged:
            asked = msgspec.structs.replace(question.entry, correlation_id=wrong or "-")
            await answer(world, msgspec.structs.replace(question, entry=asked))
        await answer(world, question, session="elsewhere")
        assert await written(world) == []
    assert await waiting_letters(await world.dead_letters()) == []


async def test_a_question_about_a_record_that_is_not_there_any_more_is_a_dead_letter(world: World) -> None:
    async with world.routing(ROUTE):
        await world.ping(2)
        first, second = await questions(world, 2)
        chat = await world.open("c")
        copied = await chat.append(first.entry, session="other", cause=second)
        await answer(world, copied.record)  # type: ignore[arg-type]
        (letter,) = await read_letters(world, 1)
        assert letter.entry.code == "source_gone"
        assert "any more" in ((await resend(world, ROUTE))[0] or "")
        assert await written(world) == []


@pytest.mark.parametrize("gone", [True, False])
async def test_an_answer_in_an_envelope_that_others_wrote_sticks_no_route(world: World, gone: bool) -> None:
    async with world.routing(ROUTE):
        await world.ping(2)
        first, second = await questions(world, 2)
        chat = await world.open("c")
        if gone:
            first = (await chat.append(first.entry, session="other", cause=second)).record  # type: ignore[assignment]
        entry = ChatAnswer(correlation_id=first.entry.correlation_id, answer="yes", by="ada")
        message = chat._envelope.pack(Draft(entry=entry, session=first.session, id="x"), Lane.IN, 1.0)
        headers = {**message.headers, "Coven-Id": "\u65e5", "Coven-Origin": "\u672c"}
        await chat.log.append(msgspec.structs.replace(message, headers=headers))
        (letter,) = await read_letters(world, 1)
        assert letter.entry.code == ("source_gone" if gone else "not_storable")
        assert await written(world) == []


@pytest.mark.parametrize("fault", [None, "b"])
async def test_a_route_that_takes_another_kind_now_lets_nothing_of_the_old_one_through(
    world: World, fault: str | None
) -> None:
    async with world.routing(ROUTE):
        await world.ping(1)
        (question,) = await questions(world, 1)
    async with world.routing(TestRoute(approval=ASKED, source_kind="Pong", fault_instance=fault)):
        await answer(world, question)
        (letter,) = await read_letters(world, 1)
    assert (letter.entry.code, letter.entry.source_kind) == ("source_gone", "ChatAnswer")


async def test_a_record_that_cannot_be_decoded_any_more_is_not_let_through(world: World) -> None:
    async with world.routing(TestRoute(approval=ASKED, fault_instance="b")):
        await world.ping(1)
        (question,) = await questions(world, 1)
        source = await world.open("a")
        message = source._envelope.pack(Draft(entry=Ping(number=0), session="s", id="bad"), Lane.IN, 1.0)
        await source.log.append(msgspec.structs.replace(message, headers={**message.headers, "Coven-Version": "7"}))
        unreadable = [record async for record in source.read()][-1]
        id = question.entry.correlation_id.replace(".1.", f".{unreadable.position}.")
        copied = msgspec.structs.replace(question.entry, correlation_id=id)
        chat = await world.open("c")
        asked = (await chat.append(copied, session="s", cause=unreadable)).record
        await answer(world, asked)  # type: ignore[arg-type]
        letters = await read_letters(world, 2)
    assert {letter.entry.code for letter in letters} == {"unreadable", "source_gone"}


async def test_imported_records_are_neither_asked_about_nor_answers(world: World) -> None:
    other = World(MemoryStore())
    async with other.routing(ROUTE):
        await other.ping(1)
        (question,) = await questions(other, 1)
        await answer(other, question)
        await other.arrive(1)
    for name in "ac":
        journal = await world.open(name)
        async for record in (await other.open(name)).read():
            await journal.import_record(record)
    await answer(world, question)
    async with world.routing(ROUTE):
        assert await written(world) == []
