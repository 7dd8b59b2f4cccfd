"""Routes that need an approval: a person is asked in a chat, and what was approved is written, once."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from branches.attachment import Attachment
from branches.chat.entries import ChatAnswer, ChatEfferentDraft, ChatQuestion
from covenants.questions import SHOWN_CHARS, asked_by, question_id, question_text
from covenants.redrive import redrive, waiting_letters
from covenants.routing import Approval, TransformFailed
from journals import Draft, Entry, Lane, MemoryStore, Record
from tests.covenants.world import Failed, Ping, Pong, TestRoute, World, numbers, read_letters
from tests.journals.flaky import Crash, flaky

ASKED = Approval("c")
ROUTE = TestRoute(approval=ASKED)
SIGNED = TestRoute(approval=Approval("c", approvers=("ada", "bob")))


class Nested(Entry, frozen=True, kw_only=True):
    value: Any


def larger(entry: Any) -> list[Entry]:
    return [Pong(number=entry.number, part=9)]


async def questions(world: World, count: int) -> list[Record[ChatQuestion]]:
    """The first questions of the chat, once there are so many."""
    journal = await world.open("c")
    found: list[Any] = []
    async with asyncio.timeout(10):
        async for record in journal.tail(0, kinds=[ChatQuestion.kind()]):
            found.append(record)
            if len(found) == count:
                return found
    raise AssertionError


async def answer(world: World, question: Record[ChatQuestion], text: str = "yes", by: str = "ada", **more: str) -> str:
    """What a person says to a question; gives the id of the answer."""
    entry = ChatAnswer(correlation_id=question.entry.correlation_id, answer=text, by=by)
    envelope = {"session": question.session, "correlation_id": entry.correlation_id, "origin": "c", **more}
    return (await (await world.open("c")).append(entry, **envelope)).record.id  # type: ignore[arg-type]


async def ask_and_answer(world: World, text: str = "yes", by: str = "ada", number: int = 0) -> None:
    """One more record, and the answer to the question about it."""
    await world.ping(1, start=number)
    await answer(world, (await questions(world, number + 1))[number], text, by)


async def resend(world: World, route: TestRoute) -> list[str | None]:
    """Send every dead letter again; gives the problems."""
    letters = await read_letters(world, 1)
    journals = {name: await world.open(name) for name in "abc"}
    return [(await redrive(letter, [route], journals, await world.dead_letters())).problem for letter in letters]


async def written(world: World) -> list[int]:
    """What stands in the target once everything is carried: a last record passes behind everything else."""
    count = len([record async for record in (await world.open("c")).read(kinds=[ChatQuestion.kind()])])
    await world.ping(1, start=1000)
    await answer(world, (await questions(world, count + 1))[count])
    target = await world.open("b")
    await target.wait_for(lambda record: record.entry == Pong(number=1000), timeout=10)
    *rest, _ = numbers([record async for record in target.read()])
    return rest


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
        assert await asyncio.wait_for(world.arrive((count + 1) // 2), 10)
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


# What is asked


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
