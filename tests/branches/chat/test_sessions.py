"""A conversation that begins anew: what is said from then on belongs to another session, in every later life too."""

from __future__ import annotations

import pytest

from branches.chat import CHAT
from branches.chat.leaf import ChatPort
from branches.chat.sessions import conversation_of
from journals import Journal, MemoryStore
from tests.branches.chat.hearing import hearing


@pytest.fixture
async def journal() -> Journal:
    return await MemoryStore().open("chat", CHAT.registry())


async def session(port: ChatPort, text: str) -> str:
    return (await port.receive("room", "ada", text)).session


async def test_it_is_another_session_from_then_on_and_after_a_restart(journal):
    async with hearing(journal) as port:
        assert await session(port, "one") == "room"
        second = await port.begin_anew("room", "m1")
        assert await session(port, "two") == second != "room"
    async with hearing(journal) as port:
        assert await session(port, "three") == second
        third = await port.begin_anew("room", "m2")
        assert await session(port, "four") == third
    assert len({"room", second, third}) == 3
    assert {conversation_of(each) for each in ("room", second, third)} == {"room"}


async def test_asked_again_under_the_same_id_it_changes_nothing(journal):
    async with hearing(journal) as port:
        second = await port.begin_anew("room", "m1")
        third = await port.begin_anew("room", "m2")
        assert await port.begin_anew("room", "m1") == second
        assert await session(port, "hello") == third


async def test_other_conversations_stay_as_they_are(journal):
    async with hearing(journal) as port:
        await port.begin_anew("room", "m1")
        assert (await port.receive("attic", "ada", "hello")).session == "attic"


async def test_of_two_that_hear_of_it_the_one_that_did_not_record_it_goes_on_there_too(journal):
    async with hearing(journal) as one, hearing(journal) as other:
        assert await session(one, "one") == await session(other, "two") == "room"
        second = await one.begin_anew("room", "m1")
        assert await other.begin_anew("room", "m1") == second
        assert await session(other, "three") == second


async def test_a_message_that_is_said_again_behind_a_beginning_stays_where_it_was(journal):
    async with hearing(journal) as one, hearing(journal) as other:
        first = await one.receive("room", "ada", "one", "m1")
        second_session = await one.begin_anew("room", "m2")
        second = await one.receive("room", "ada", "two", "m3")
        third_session = await one.begin_anew("room", "m4")
        for port in (one, other):
            assert await port.receive("room", "ada", "one", "m1") == first
            assert await port.receive("room", "ada", "two, edited", "m3") == second
            assert (await port.receive("room", "ada", "one", "m5")).session == third_session
        late = await other.receive("room", "ada", "late", "m6")
        await other.begin_anew("room", "m7")
        assert await one.receive("room", "ada", "late", "m6") == late
    assert (first.session, second.session) == ("room", second_session)
