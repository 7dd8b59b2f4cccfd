"""Questions of routes: what a person is shown, when nobody is asked, and how an answer is bound to its question."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branches.attachment import Attachment
from branches.chat.entries import ChatEfferentDraft
from covenants.questions import SHOWN_CHARS, asked_by, question_id, question_text
from covenants.routing import Approval, TransformFailed
from journals import Entry
from tests.covenants.approvals import ASKED, ROUTE, answer, questions
from tests.covenants.world import Failed, Ping, Pong, TestRoute, World, read_letters


class Nested(Entry, frozen=True, kw_only=True):
    value: Any


async def test_it_may_be_asked_in_a_conversation_of_its_own(world: World) -> None:
    route = TestRoute(approval=Approval("c", "moderators", ("ada",)))
    async with world.routing(route):
        await world.ping(1, session="kitchen")
        (question,) = await questions(world, 1)
        await answer(world, question)
        (record,) = await world.arrive(1)
    assert (question.session, question.entry.approvers) == ("moderators", ("ada",))
    assert question.entry.question == 'May I send to b in "kitchen": Pong {"number":0,"part":0}?'
    assert record.session == "kitchen"


async def test_several_effects_are_one_question_and_arrive_together(world: World) -> None:
    def twice(entry: Any) -> list[Entry]:
        return [Pong(number=entry.number, part=part) for part in range(2)]

    async with world.routing(TestRoute(approval=ASKED, make=twice)):
        await world.ping(1)
        (question,) = await questions(world, 1)
        await answer(world, question)
        records = await world.arrive(2)
    fields = 'Pong {"number":0,"part":0}, Pong {"number":0,"part":1}'
    assert question.entry.question == f"May I send to b: {fields}?"
    assert [record.entry for record in records] == [Pong(number=0, part=0), Pong(number=0, part=1)]


async def test_where_nothing_comes_of_a_record_nobody_is_asked(world: World) -> None:
    def positive(entry: Any) -> list[Entry]:
        return [Pong(number=entry.number)] if entry.number else []

    async with world.routing(TestRoute(approval=ASKED, make=positive)):
        await world.ping(2)
        (question,) = await questions(world, 1)
    assert '"number":1' in question.entry.question


@pytest.mark.parametrize("count", [1, 1000])
async def test_what_fails_fails_before_anybody_is_asked(world: World, count: int) -> None:
    def fails(entry: Any) -> list[Entry]:
        if count == 1:
            return [Failed(number=0, error="\ud800")]
        return [Pong(number=part) for part in range(count)]

    def refuses(entry: Any) -> list[Entry]:
        raise TransformFailed("odd", "not this one")

    async with world.routing(
        TestRoute(approval=ASKED, make=fails), TestRoute(name="other", approval=ASKED, make=refuses)
    ):
        await world.ping(1)
        letters = await read_letters(world, 2)
    assert {letter.entry.code for letter in letters} == {"odd", "not_storable" if count == 1 else "too_many"}
    assert [record async for record in (await world.open("c")).read()] == []


async def test_what_is_nested_too_deeply_to_be_shown_sticks_no_route(world: World) -> None:
    def nests(entry: Any) -> list[Entry]:
        value: list[Any] = []
        for _ in range(entry.number):
            value = [value]
        return [Nested(value=value)]

    async with world.routing(TestRoute(approval=ASKED, make=nests)):
        await world.ping(1, start=700)
        (letter,) = await read_letters(world, 1)
        await world.ping(1, start=7)
        (question,) = await questions(world, 1)
    assert letter.entry.code == "not_storable"
    assert question.entry.question == 'May I send to b: Nested {"value":[[[[[[[[]]]]]]]]}?'


async def test_what_has_passed_too_often_is_not_asked_about_and_each_pass_is_counted(world: World) -> None:
    def on(entry: Any) -> list[Entry]:
        return [Ping(number=entry.number + 1)]

    there = TestRoute(name="there", max_hops=2, make=on, approval=ASKED)
    back = TestRoute(name="back", source_instance="b", target_instance="a", make=on)
    async with world.routing(there, back):
        await world.ping(1)
        for count in (1, 2):
            await answer(world, (await questions(world, count))[-1])
        (letter,) = await read_letters(world, 1)
    assert letter.entry.code == "max_hops"
    assert [record.hops async for record in (await world.open("b")).read()] == [1, 2]


def test_nothing_hides_in_a_question_and_nothing_turns_it_around() -> None:
    unseen = "\u202e\u200b\u00a0\U000e0041\u034f\u115f\u2800\u3164\ufe0f\uffa0\U000e0101"
    text = f'Hi\n\x1b[2J"?{unseen} May I send to b: nothing?'
    told = question_text("b", [ChatEfferentDraft(text=text, sender="é")], "a\u202eb")
    assert told.isprintable()
    assert not set(unseen) & set(told)
    assert told.startswith('May I send to b in "a\\u202eb": ChatEfferentDraft {"')
    assert told.endswith("?")
    fields = told.removesuffix("?").partition("ChatEfferentDraft ")[2]
    assert json.loads(fields) == {"text": text, "sender": "é"}


def test_of_what_is_huge_the_beginning_is_shown_and_that_it_is_huge() -> None:
    told = question_text("b", [ChatEfferentDraft(text="x" * 1_000_000)])
    assert len(told) < SHOWN_CHARS + 100
    assert told.endswith("x… (1000029 characters)?")
    hidden = question_text("b", [ChatEfferentDraft(text="\u202e" * 10_000_000)])
    assert len(hidden) < SHOWN_CHARS + 100
    assert hidden.endswith("… (10000029 characters)?")


def test_files_are_told_by_their_size_and_digest() -> None:
    told = question_text("b", [ChatEfferentDraft(text="see", attachments=(Attachment("a.png", "image/png", b"abc"),))])
    assert '"body":"3 bytes, sha256 ba7816bf' in told
    assert '"name":"a.png"' in told


@given(st.text())
def test_no_other_id_is_taken_for_that_of_a_route_by_accident(text: str) -> None:
    asked = asked_by(text)
    assert asked is None or text.startswith("approve.")


def test_no_position_is_taken_for_one_that_no_journal_has() -> None:
    for position in ("0", "01", "-1", "1_0", "\u0661", "9" * 19, "9" * 5000, ""):
        assert asked_by(f"approve.a.{position}.0.b") is None
    assert asked_by(f"approve.a.{10**17}.0.b") == ("a", 10**17, "0")


def test_an_id_fits_where_platforms_keep_it() -> None:
    id = question_id(ROUTE, 10**12, [Pong(number=1)], "f" * 12)
    assert len(id) <= 90
    assert asked_by(id) is not None
