from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from branches.chat import CHAT, ChatChunk, ChatEfferentDraft
from branches.chat.entries import ChatActivity, ChatQuestion
from branches.chat.service import ChatService
from journals import Journal, MemoryStore
from leaves.chats.web.leaf import WebChat
from leaves.chats.web.options import WebOptions
from tests.living import living


class Place:
    """A web chat that runs over its journals."""

    def __init__(self, leaf: WebChat, journal: Journal, chunks: Journal, running: asyncio.Task[None]) -> None:
        self.leaf, self.journal, self.chunks, self.running = leaf, journal, chunks, running
        assert leaf.address is not None
        self.address = leaf.address

    async def heard(self, text: str):
        return await self.journal.wait_for(lambda r: r.kind == "ChatAfferent" and r.entry.text == text, timeout=60)

    async def say(self, session: str, text: str, *, prompt: str | None = None) -> None:
        draft = ChatEfferentDraft(text=text, sender="hearth")
        await self.journal.append(draft, session=session, correlation_id=prompt)

    async def write(self, session: str, *pieces: str, prompt: str, first: int = 0, thought: str | None = None) -> None:
        for index, piece in enumerate(pieces, first):
            stream = f"stream of {prompt}" if thought is None else thought
            chunk = ChatChunk(stream=stream, index=index, text=piece, thought=thought is not None)
            await self.chunks.append(chunk, session=session, correlation_id=prompt)

    async def act(
        self,
        session: str,
        activity: str,
        text: str,
        tool_name: str = "",
        call: str | None = None,
        stream: str | None = None,
    ) -> None:
        entry = ChatActivity(activity=activity, text=text, tool_name=tool_name, correlation_id=call, stream=stream)
        await self.journal.append(entry, session=session)

    async def ask(self, session: str, question: str, *choices: str, id: str = "question-1") -> None:
        entry = ChatQuestion(correlation_id=id, question=question, choices=choices)
        await self.journal.append(entry, session=session, id=f"asked-{id}", correlation_id=id)

    async def kinds(self, kind: str) -> list[str]:
        return [record.entry.text async for record in self.journal.read(kinds=[kind])]


@pytest.fixture
def place(monkeypatch):
    """Starts a web chat; each time is a start over the same journals."""
    monkeypatch.delenv("COVEN_WEB_TOKEN", raising=False)
    store = MemoryStore()

    @asynccontextmanager
    async def start(**options):
        journal = await store.open("chat", CHAT.registry())
        chunks = await store.open("chat-chunks", CHAT.registry(short_lived=True), short_lived=True)
        leaf = WebChat(WebOptions(**{"port": 0, **options}), "chat")
        async with living(ChatService("chat", journal, leaf, owner="test", chunk_journal=chunks)) as running:
            yield Place(leaf, journal, chunks, running)

    return start
