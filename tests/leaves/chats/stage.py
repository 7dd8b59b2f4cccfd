"""Somebody at the other end of a chat's journal, for leaves that bring answers to a platform."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from branches.chat import CHAT, ChatAfferent, ChatChunk, ChatEfferentDraft, ChatStreamCompleted
from branches.chat.leaf import ChatLeaf
from branches.chat.service import ChatService
from journals import Journal, MemoryStore, Record
from tests.living import living


class ChatStage:
    """One store for as many lives of a leaf as a test wants."""

    def __init__(self, journal: Journal, chunks: Journal) -> None:
        self.journal, self.chunks = journal, chunks

    @asynccontextmanager
    async def life(self, leaf: ChatLeaf, timeout: float = 60, **options: Any) -> AsyncGenerator[asyncio.Task[None]]:
        """One life of the leaf, from ready to a sudden end, of so many seconds at most."""
        service = ChatService("chat", self.journal, leaf, owner="test", chunk_journal=self.chunks, **options)
        async with asyncio.timeout(timeout), living(service) as task:
            yield task

    async def prompts(self, count: int) -> list[Record[ChatAfferent]]:
        """The first prompts, as soon as there are so many."""
        return await self.first("ChatAfferent", count)

    async def delivered(self, count: int, timeout: float = 60) -> list[Record]:
        """The first outcomes, as soon as there are so many."""
        return await self.first("ChatDelivered", count, "ChatUndelivered", timeout=timeout)

    async def answers(self, count: int = 1) -> list[tuple[str, str, str]]:
        """The first answers to questions, as soon as there are so many."""
        found = await self.first("ChatAnswer", count)
        return [(record.entry.correlation_id, record.entry.answer, record.entry.by) for record in found]

    async def first(self, kind: str, count: int, *others: str, timeout: float = 60) -> list:
        """The first records of these kinds, as soon as there are so many."""
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

    async def written(self, count: int) -> None:
        """So many chunks went by."""
        async with asyncio.timeout(60):
            async for record in self.chunks.tail(0):
                if record.position >= count:
                    break

    async def echo(self) -> None:
        """An agent that repeats what it is told."""
        async for record in self.journal.tail(0, kinds=["ChatAfferent"]):
            await self.answer(record, f"<{record.entry.text}>")


async def journals() -> tuple[Journal, Journal]:
    """The journals of a chat and of its chunks."""
    store = MemoryStore()
    return (
        await store.open("chat", CHAT.registry()),
        await store.open("chat-chunks", CHAT.registry(short_lived=True), short_lived=True),
    )
