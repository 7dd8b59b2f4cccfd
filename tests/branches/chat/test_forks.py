"""A conversation that goes on from another one, or from an earlier moment of its own."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from branches.chat import CHAT, ChatEfferent, ChatEfferentDraft
from branches.chat.entries import ChatActivity, ChatForked
from branches.chat.forks import FORKS, wish
from branches.chat.leaf import ChatPort, ForkRefused
from branches.chat.sessions import conversation_of
from journals import Journal, MemoryStore
from tests.branches.chat.hearing import hearing
from tests.policies.bench import DyingLog, Killed


@pytest.fixture
async def journal() -> Journal:
    return await MemoryStore().open("chat", CHAT.registry())


async def talk(journal: Journal, port: ChatPort, conversation: str, *texts: str) -> list[str]:
    """Messages and their answers; gives the ids of the messages."""
    ids: list[str] = []
    for text in texts:
        heard = await port.receive(conversation, "ada", text, f"{conversation} {text}")
        ids.append(heard.id)
        draft = ChatEfferentDraft(text=text.upper())
        await journal.append(draft, session=heard.session, cause=heard, correlation_id=heard.id)
        await journal.wait_for(lambda r, id=heard.id: r.kind == "ChatDelivered" and r.correlation_id == id, timeout=60)
    return ids


async def history(port: ChatPort, session: str, after: int = 0) -> str:
    return " ".join([r.entry.text async for r in port.history(session, after) if not isinstance(r.entry, ChatForked)])


async def forks(journal: Journal) -> list[ChatForked]:
    return [r.entry async for r in journal.read(kinds=["ChatForked"]) if isinstance(r.entry, ChatForked)]


async def test_it_goes_on_in_a_session_of_its_own_and_says_from_where(journal):
    async with hearing(journal) as port:
        one, two = await talk(journal, port, "room", "one", "two")
        session = await port.fork("room", "m1", back=1)
        assert conversation_of(session) == "room" != session
        (three,) = await talk(journal, port, "room", "three")
        assert await history(port, session) == "one ONE three THREE"
        assert await history(port, "room") == "one ONE two TWO"
        again = await port.fork("room", "m2", back=2)
        assert await forks(journal) == [
            ChatForked(parent="room", without=(two,)),
            ChatForked(parent=session, without=(one, three)),
        ]
        assert await history(port, again) == ""
    async with hearing(journal) as port:
        assert (await port.receive("room", "ada", "four")).session == again


async def test_asked_again_it_is_the_same_fork(journal):
    async with hearing(journal) as port:
        await talk(journal, port, "room", "one")
        session = await port.fork("room", "m1")
        await talk(journal, port, "room", "two")
        assert await port.fork("room", "m1", back=1) == session
        reset = await port.begin_anew("room", "m2")
    async with hearing(journal) as port:
        assert await port.fork("room", "m1") == session
        assert (await port.receive("room", "ada", "three")).session == reset
    assert len(await forks(journal)) == 1


async def test_another_conversation_can_go_on_from_here(journal):
    async with hearing(journal) as port:
        await talk(journal, port, "room", "one", "two")
        assert await port.fork("room", "m1", back=1, into="other") == "other"
        await talk(journal, port, "other", "three")
        await talk(journal, port, "room", "four")
        assert await history(port, "other") == "one ONE three THREE"
        assert await history(port, "room") == "one ONE two TWO four FOUR"
        places = [r.position async for r in port.history("other")]
        assert places == sorted(places)
        assert [await history(port, "other", place) for place in places[:3]] == [
            "ONE three THREE",
            "three THREE",
            "THREE",
        ]
        with pytest.raises(ForkRefused, match="has begun already"):
            await port.fork("room", "m2", into="other")


async def test_what_was_done_for_a_message_goes_with_it_and_a_late_answer_comes_along(journal):
    async with hearing(journal) as port:
        one = await port.receive("room", "ada", "one")
        two = await port.receive("room", "ada", "two")
        await journal.append(ChatActivity(activity="thought", text="hm"), session="room")
        for heard in (one, two):
            answer = ChatEfferent(text=f"{heard.entry.text}!")
            await journal.append(answer, session="room", correlation_id=heard.id)
        session = await port.fork("room", "m1", back=1)
        assert await history(port, session) == "one one!"


async def test_it_goes_back_as_far_as_there_are_messages(journal):
    async with hearing(journal) as port:
        await talk(journal, port, "room", "one")
        with pytest.raises(ForkRefused, match="has 1 message, so it cannot go back 2"):
            await port.fork("room", "m1", back=2)
        await port.begin_anew("room", "m2")
        with pytest.raises(ForkRefused, match="has 0 messages"):
            await port.fork("room", "m3", back=1)
    assert await forks(journal) == []


async def test_a_conversation_does_not_go_on_from_itself(journal):
    async with hearing(journal) as port:
        with pytest.raises(ForkRefused, match="from itself"):
            await port.fork("a", "m1", into="a")
        await port.fork("a", "m2", into="b")
        await port.fork("b", "m3", into="c")
        with pytest.raises(ForkRefused, match="from itself"):
            await port.fork("c", "m4", into="a")
        await talk(journal, port, "a", "one")
        assert await history(port, "a") == "one ONE"


async def test_two_that_go_on_from_each_other_at_the_same_time_end(journal):
    async with hearing(journal) as port:
        await asyncio.gather(port.fork("a", "m1", into="b"), port.fork("b", "m2", into="a"), return_exceptions=True)
        for room in ("a", "b"):
            await talk(journal, port, room, room)
            assert room in (await history(port, room)).split()


async def test_forks_of_forks_are_read_however_many_and_there_is_a_limit(journal):
    async with hearing(journal) as port:
        await talk(journal, port, "room", "one")
        for number in range(FORKS):
            session = await port.fork("room", f"m{number}")
        assert await history(port, session) == "one ONE"
        with pytest.raises(ForkRefused, match="begin a new one"):
            await port.fork("room", "one-more")
        await port.begin_anew("room", "anew")
        await port.fork("room", "in-the-new-one")


async def test_where_no_agent_hears_of_it_there_is_none(journal):
    async with hearing(journal, forks_routed=False) as port:
        await talk(journal, port, "room", "one")
        with pytest.raises(ForkRefused, match="no route `ChatForked -> AgentFork`"):
            await port.fork("room", "m1")
        assert (await port.receive("room", "ada", "two")).session == "room"


async def killed_at(at: int, when: str) -> int:
    """A fork that is cut off there and asked for again; gives how often the journal was written to until then."""
    journal = await MemoryStore().open("chat", CHAT.registry())
    async with hearing(journal) as port:
        _, two = await talk(journal, port, "room", "one", "two")
    log = DyingLog(journal.log, at, when)
    async with hearing(Journal(log, journal.registry)) as port:  # type: ignore[arg-type]
        with suppress(Killed):
            await port.fork("room", "m1", back=1)
    async with hearing(journal) as port:
        session = await port.fork("room", "m1", back=1)
        assert (await port.receive("room", "ada", "three")).session == session
        assert await history(port, session) == "one ONE three"
    assert await forks(journal) == [ChatForked(parent="room", without=(two,))]
    return log.writes


async def test_killed_at_every_write_and_asked_again_it_is_one_fork():
    writes = await killed_at(0, "")
    assert writes >= 2
    for when in ("before", "after"):
        for at in range(1, writes + 1):
            await killed_at(at, when)


@pytest.mark.parametrize(
    ("typed", "wanted", "place"),
    [
        ("", (0, ""), "here"),
        (" 1", (1, ""), "1 message back"),
        ("2 and now\nthis", (2, "and now\nthis"), "2 messages back"),
        ("what if", (0, "what if"), "here"),
        ("2nd try", (0, "2nd try"), "here"),
        ("99999", (0, "99999"), "here"),
    ],
)
def test_what_a_person_types_says_from_where_and_what(typed, wanted, place):
    assert wish(typed) == wanted
    assert wish(typed).place == place
