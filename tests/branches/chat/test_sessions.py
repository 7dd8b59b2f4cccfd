"""A conversation that begins anew: what is said from then on belongs to another session, in every later life too."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager

import pytest

from branches.chat import CHAT
from branches.chat.leaf import ChatPort
from branches.chat.service import ChatService
from branches.chat.sessions import conversation_of
from journals import Journal, MemoryStore


class Silent:
    """A platform that only hears."""

    def __init__(self) -> None:
        self.port: asyncio.Future[ChatPort] = asyncio.get_running_loop().create_future()

    async def run(self, port: ChatPort, ready: Callable[[], None]) -> None:
        self.port.set_result(port)
        ready()
        await asyncio.Event().wait()

    async def deliver(self, message) -> None:
        return None


@pytest.fixture
async def journal() -> Journal:
    return await MemoryStore().open("chat", CHAT.registry())


@asynccontextmanager
async def hearing(journal: Journal):
    leaf = Silent()
    task = asyncio.create_task(ChatService("chat", journal, leaf, owner="test").run(lambda: None))
    yield await leaf.port
    task.cancel()
    await asyncio.wait([task])


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
