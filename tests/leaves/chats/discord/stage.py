"""A Discord, a bot on it, and somebody at the other end of its journal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from branches.chat import CHAT, ChatAfferent, ChatChunk, ChatEfferentDraft, ChatStreamCompleted
from branches.chat.service import ChatService
from branches.secret import Secret
from coven.testing.discord import DiscordServer, Message
from journals import Journal, MemoryStore, Record
from leaves.chats.discord.leaf import Discord
from leaves.chats.discord.options import DiscordOptions


class Stage:
    """One store for as many lives of the bot as a test wants."""

    def __init__(self, discord: DiscordServer, journal: Journal, chunks: Journal) -> None:
        self.discord, self.journal, self.chunks = discord, journal, chunks
        self.world = discord.world

    @asynccontextmanager
    async def bot(
        self, *, leaf: type[Discord] = Discord, clock=None, timeout: float = 30, **options
    ) -> AsyncGenerator[asyncio.Task[None]]:
        """One life of the bot, from ready to a sudden end, of so many seconds at most."""
        token = Secret("${TOKEN}", {"TOKEN": self.discord.token})
        chosen = DiscordOptions(**{"token": token, "api": self.discord.api, "commands": False, **options})
        service = ChatService(
            "chat", self.journal, leaf(chosen, "chat", clock=clock), owner="test", chunk_journal=self.chunks
        )
        ready = asyncio.Event()
        task = asyncio.create_task(service.run(ready.set))
        waiting = asyncio.create_task(ready.wait())
        try:
            async with asyncio.timeout(timeout):
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

    async def delivered(self, count: int, timeout: float = 30) -> list[Record]:
        """The first outcomes, as soon as there are so many."""
        return await self._first("ChatDelivered", count, "ChatUndelivered", timeout=timeout)

    async def _first(self, kind: str, count: int, *others: str, timeout: float = 30) -> list:
        found: list = []
        async with asyncio.timeout(timeout):
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

    async def echo(self) -> None:
        """An agent that repeats what it is told."""
        async for record in self.journal.tail(0, kinds=["ChatAfferent"]):
            await self.answer(record, f"<{record.entry.text}>")

    def said(self, channel=None) -> list[str]:
        """What the bot says in a channel."""
        return [message.text for message in self.messages(channel)]

    def messages(self, channel=None) -> list[Message]:
        return self.world.of_bot(channel or self.world.general)


@asynccontextmanager
async def staged(**options) -> AsyncGenerator[Stage]:
    store = MemoryStore()
    async with DiscordServer(**options) as discord:
        yield Stage(
            discord,
            await store.open("chat", CHAT.registry()),
            await store.open("chat-chunks", CHAT.registry(short_lived=True), short_lived=True),
        )
