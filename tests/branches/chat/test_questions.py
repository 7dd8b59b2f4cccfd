"""Questions to people: committed and delivered like any message, answered once, and kept open over restarts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress

from branches.chat import CHAT
from branches.chat.entries import ChatAnswer, ChatEfferent, ChatQuestion
from branches.chat.leaf import ChatPort, DeliveryFailed
from branches.chat.service import ChatService
from journals import Journal, Record, Store


class Desk:
    """A leaf with somebody at it."""

    def __init__(self, *, reachable: bool = True) -> None:
        self._reachable = reachable
        self.shown: asyncio.Queue[Record[ChatEfferent]] = asyncio.Queue()
        self.reminded: list[Record[ChatEfferent]] = []
        self.port: ChatPort | None = None

    async def run(self, port: ChatPort, ready: Callable[[], None]) -> None:
        self.port = port
        ready()
        await asyncio.Event().wait()

    async def deliver(self, message: Record[ChatEfferent]) -> str | None:
        if not self._reachable:
            raise DeliveryFailed("the channel is gone")
        await self.shown.put(message)
        return None

    async def remind(self, message: Record[ChatEfferent]) -> None:
        self.reminded.append(message)


@asynccontextmanager
async def serving(journal: Journal, desk: Desk) -> AsyncGenerator[ChatPort]:
    ready = asyncio.Event()
    task = asyncio.create_task(ChatService("chat", journal, desk, owner="test", settled_every=1).run(ready.set))
    try:
        await ready.wait()
        assert desk.port is not None
        yield desk.port
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def opened(store: Store) -> Journal:
    return await store.open("chat", CHAT.registry())


async def ask(journal: Journal, number: int = 1) -> None:
    entry = ChatQuestion(correlation_id=f"q-{number}", question="May I?", choices=("yes", "no"))
    await journal.append(entry, session="s", id=f"asked-{number}", correlation_id=f"q-{number}", origin="chat")


async def answers(journal: Journal, count: int) -> list[ChatAnswer]:
    found: list[ChatAnswer] = []
    async with asyncio.timeout(60):
        async for record in journal.tail(kinds=["ChatAnswer"]):
            assert isinstance(record.entry, ChatAnswer)
            found.append(record.entry)
            if len(found) == count:
                break
    return found


async def test_a_question_is_a_message_that_names_it_and_its_answer_comes_home(store: Store) -> None:
    journal, desk = await opened(store), Desk()
    async with serving(journal, desk) as port:
        await ask(journal)
        shown = await desk.shown.get()
        assert (shown.entry.text, shown.entry.question, shown.entry.choices) == ("May I?", "q-1", ("yes", "no"))
        record = await port.answer("s", "q-1", "yes", "ada", "pressed-1")
        again = await port.answer("s", "q-1", "no", "ada", "pressed-1")
    assert (record.entry.answer, record.entry.by, record.correlation_id) == ("yes", "ada", "q-1")
    assert again.id == record.id


async def test_a_message_is_a_prompt_or_an_answer_for_ever_whichever_it_was_first(store: Store) -> None:
    journal, desk = await opened(store), Desk()
    async with serving(journal, desk) as port:
        await ask(journal)
        answer = await port.answer("s", "q-1", "yes", "ada", "message-1")
        prompt = await port.receive("s", "ada", "hello", "message-2")
    async with serving(journal, Desk()) as port:
        assert (await port.receive("s", "ada", "yes", "message-1")).position == answer.position
        assert (await port.answer("s", "q-1", "hello", "ada", "message-2")).position == prompt.position


async def test_an_open_question_is_shown_again_by_the_next_start_and_an_answered_one_is_not(store: Store) -> None:
    journal, desk = await opened(store), Desk()
    async with serving(journal, desk) as port:
        for number in (1, 2):
            await ask(journal, number)
            await desk.shown.get()
        await port.answer("s", "q-1", "yes", "ada")
        await journal.wait_for(lambda record: record.kind == "ChatDelivered", timeout=60)
    again = Desk()
    async with serving(journal, again) as port:
        assert [message.entry.question for message in again.reminded] == ["q-2"]
        await port.answer("s", "q-2", "no", "ada")
    last = Desk()
    async with serving(journal, last):
        assert (last.reminded, last.shown.empty()) == ([], True)


async def test_a_question_that_cannot_be_delivered_is_answered_by_saying_so(store: Store) -> None:
    journal = await opened(store)
    async with serving(journal, Desk(reachable=False)):
        await ask(journal)
        (answer,) = await answers(journal, 1)
    assert (answer.answer, answer.by) == ("nobody could be asked: the channel is gone", "")
