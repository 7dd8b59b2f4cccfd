"""A Slack, an app in it, and somebody at the other end of its journal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from branches.chat import CHAT, ChatAfferent, ChatChunk, ChatEfferentDraft, ChatStreamCompleted
from branches.chat.service import ChatService
from branches.secret import Secret
from coven.testing.slack import Message, SlackServer
from journals import Journal, MemoryStore, Record
from leaves.chats.slack.leaf import Slack
from leaves.chats.slack.options import SlackOptions


class Stage:
    """One store for as many lives of the app as a test wants."""

    def __init__(self, slack: SlackServer, journal: Journal, chunks: Journal) -> None:
        self.slack, self.journal, self.chunks = slack, journal, chunks
        self.world = slack.world

    @asynccontextmanager
    async def bot(
        self, *, leaf: type[Slack] = Slack, clock=None, forks=True, **options
    ) -> AsyncGenerator[asyncio.Task[None]]:
        """One life of the app, from ready to a sudden end."""
        environ = {"BOT": self.slack.bot_token, "APP": self.slack.app_token}
        tokens = {"bot_token": Secret("${BOT}", environ), "app_token": Secret("${APP}", environ)}
        chosen = SlackOptions(**{**tokens, "api": self.slack.api, **options})
        service = ChatService(
            "chat",
            self.journal,
            leaf(chosen, "chat", clock=clock),
            owner="test",
            chunk_journal=self.chunks,
            forks_routed=forks,
        )
        ready = asyncio.Event()
        task = asyncio.create_task(service.run(ready.set))
        waiting = asyncio.create_task(ready.wait())
        try:
            async with asyncio.timeout(30):
                await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
                if task.done():
                    task.result()
                yield task
        finally:
            task.cancel()
            waiting.cancel()
            await asyncio.wait([task])

    async def prompts(self, count: int) -> list[Record[ChatAfferent]]:
        """The first prompts, as soon as there are so many."""
        return await self._first("ChatAfferent", count)

    async def delivered(self, count: int) -> list[Record]:
        """The first outcomes, as soon as there are so many."""
        return await self._first("ChatDelivered", count, "ChatUndelivered")

    async def answers(self, count: int = 1) -> list[tuple[str, str, str]]:
        """The first answers to questions, as soon as there are so many."""
        found = await self._first("ChatAnswer", count)
        return [(record.entry.correlation_id, record.entry.answer, record.entry.by) for record in found]

    async def _first(self, kind: str, count: int, *others: str) -> list:
        found: list = []
        async with asyncio.timeout(30):
            async for record in self.journal.tail(0, kinds=[kind, *others]):
                found.append(record)
                if len(found) == count:
                    break
        return found

    async def answer(self, prompt: Record, text: str) -> None:
        """The agent's last word."""
        draft = ChatEfferentDraft(text=text, sender="keeper")
        await self.journal.append(draft, session=prompt.session, cause=prompt)

    async def write(
        self, prompt: Record, stream: str, *texts: str, first: int = 0, complete: bool = False, thought: bool = False
    ) -> None:
        """The agent is writing."""
        for index, text in enumerate(texts, first):
            chunk = ChatChunk(stream=stream, index=index, text=text, thought=thought)
            await self.chunks.append(chunk, session=prompt.session, cause=prompt)
        if complete:
            await self.chunks.append(ChatStreamCompleted(stream=stream), session=prompt.session, cause=prompt)

    async def written(self, count: int) -> None:
        """So many chunks went by."""
        async for record in self.chunks.tail(0):
            if record.position >= count:
                break

    async def echo(self) -> None:
        """An agent that repeats what it is told."""
        async for record in self.journal.tail(0, kinds=["ChatAfferent"]):
            await self.answer(record, f"<{record.entry.text}>")

    async def acknowledged(self) -> None:
        """Nothing waits to be sent again."""
        await self.slack.until(lambda: not self.slack.unacknowledged)

    def asked(self, method: str) -> list[dict]:
        """What the app has asked of this method."""
        return [given for name, given in self.slack.requests if name == method]

    def said(self, channel=None, thread: Message | None = None) -> list[str]:
        """What the app says in a channel or a thread."""
        return [message.text for message in self.messages(channel, thread)]

    def messages(self, channel=None, thread: Message | None = None) -> list[Message]:
        return self.world.of_bot(channel or self.world.general, thread)


@asynccontextmanager
async def staged(**options) -> AsyncGenerator[Stage]:
    store = MemoryStore()
    async with SlackServer(**options) as slack:
        yield Stage(
            slack,
            await store.open("chat", CHAT.registry()),
            await store.open("chat-chunks", CHAT.registry(short_lived=True), short_lived=True),
        )
