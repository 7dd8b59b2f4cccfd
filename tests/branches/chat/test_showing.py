"""What a leaf is shown of messages that are still being written."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import asynccontextmanager

import pytest

from branches.chat import CHAT, ChatChunk, ChatStreamCompleted
from branches.chat.showing import Showing
from branches.chat.windows import Window
from coven.testing import ManualClock
from journals import Journal, MemoryStore


class Screen:
    def __init__(self) -> None:
        self.texts: defaultdict[str, list[str]] = defaultdict(list)
        self.indexes: defaultdict[str, list[int]] = defaultdict(list)
        self.completed: list[str] = []
        self._changed = asyncio.Event()

    async def show(self, chunk) -> None:
        entry = chunk.entry
        if isinstance(entry, ChatChunk):
            self.texts[entry.stream].append(entry.text)
            self.indexes[entry.stream].append(entry.index)
        else:
            self.completed.append(entry.stream)
        self._changed.set()

    async def until(self, condition) -> None:
        async with asyncio.timeout(10):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


class Windowed(Screen):
    def __init__(self, window: Window) -> None:
        super().__init__()
        self.window = window


@pytest.fixture
async def journal() -> Journal:
    return await MemoryStore().open("chat-chunks", CHAT.registry(short_lived=True), short_lived=True)


@asynccontextmanager
async def showing(journal: Journal, screen: Screen, clock: ManualClock | None = None):
    task = asyncio.create_task(Showing(screen, clock or ManualClock()).run(journal, await journal.end()))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def write(journal: Journal, stream: str, *texts: str, first: int = 0, complete: bool = True) -> None:
    for index, text in enumerate(texts, first):
        await journal.append(ChatChunk(stream=stream, index=index, text=text), session=f"room of {stream}")
    if complete:
        await journal.append(ChatStreamCompleted(stream=stream), session=f"room of {stream}")


async def test_without_a_window_every_piece_is_shown_as_it_comes(journal):
    screen = Screen()
    async with showing(journal, screen):
        await write(journal, "a", "one ", "two")
        await screen.until(lambda: screen.completed == ["a"])
    assert screen.texts["a"] == ["one ", "two"]


async def test_pieces_go_through_the_leafs_window_and_the_end_drains_it(journal):
    screen = Windowed(Window(sentence=True))
    async with showing(journal, screen):
        await write(journal, "a", "On", "e. Two", " and", " three")
        await screen.until(lambda: screen.completed == ["a"])
    assert screen.texts["a"] == ["One. ", "Two and three"]
    assert screen.indexes["a"] == [0, 1]


async def test_a_pause_shows_what_is_held(journal):
    clock, screen = ManualClock(), Windowed(Window(paragraph=True, debounce_s=2))
    async with showing(journal, screen, clock):
        await write(journal, "a", "hello", complete=False)
        await clock.until_pending()
        clock.advance(2)
        await screen.until(lambda: screen.texts["a"])
    assert screen.texts["a"] == ["hello"]


async def test_interleaved_streams_do_not_mix(journal):
    screen = Windowed(Window(max_chars=3))
    async with showing(journal, screen):
        await write(journal, "a", "aaaa", complete=False)
        await write(journal, "b", "bbbb", complete=False)
        await write(journal, "a", "aa", first=1)
        await write(journal, "b", "bb", first=1)
        await screen.until(lambda: len(screen.completed) == 2)
    assert screen.texts == {"a": ["aaa", "aaa"], "b": ["bbb", "bbb"]}


async def test_behind_a_missing_piece_nothing_is_shown_and_other_streams_go_on(journal):
    screen = Screen()
    async with showing(journal, screen):
        await write(journal, "late", "rest of it", first=3)
        await write(journal, "gap", "one", complete=False)
        await write(journal, "gap", "three", "four", first=2)
        await write(journal, "whole", "x")
        await screen.until(lambda: screen.completed == ["whole"])
    assert screen.texts == {"gap": ["one"], "whole": ["x"]}
