"""What a leaf is shown of messages that are still being written."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branches.chat import CHAT, ChatChunk, ChatStreamCompleted
from branches.chat.showing import Showing
from branches.chat.windows import Held, Window, take
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
        async with asyncio.timeout(60):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


class Windowed(Screen):
    def __init__(self, window: Window) -> None:
        super().__init__()
        self.window = window


class Thoughtful(Windowed):
    """A screen that shows thoughts too, apart from the texts."""

    def __init__(self, window: Window) -> None:
        super().__init__(window)
        self.thoughts = Screen()

    async def show_thought(self, chunk) -> None:
        await self.thoughts.show(chunk)
        self._changed.set()


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


async def write(
    journal: Journal, stream: str, *texts: str, first: int = 0, complete: bool = True, thought: bool = False
) -> None:
    for index, text in enumerate(texts, first):
        chunk = ChatChunk(stream=stream, index=index, text=text, thought=thought)
        await journal.append(chunk, session=f"room of {stream}")
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


async def test_a_thought_goes_through_the_same_window_and_its_end_drains_it(journal):
    screen = Thoughtful(Window(sentence=True))
    async with showing(journal, screen):
        await write(journal, "a.thought", "Hm", "m. Two", " and", " three", thought=True)
        await write(journal, "a", "Yes. ", "So")
        await screen.until(lambda: screen.completed == ["a"])
    assert screen.thoughts.texts == {"a.thought": ["Hmm. ", "Two and three"]}
    assert screen.thoughts.completed == ["a.thought"]
    assert screen.texts == {"a": ["Yes. ", "So"]}


async def test_a_leaf_that_shows_no_thoughts_is_told_nothing_of_them(journal):
    screen = Screen()
    async with showing(journal, screen):
        await write(journal, "a.thought", "They must ", "not know.", thought=True)
        await write(journal, "a", "Yes.")
        await screen.until(lambda: screen.completed)
    assert (screen.texts, screen.completed) == ({"a": ["Yes."]}, ["a"])


STREAMS = ("a", "a.thought", "b", "b.thought")
WINDOWS = st.builds(Window, paragraph=st.booleans(), sentence=st.booleans(), max_chars=st.none() | st.integers(1, 5))
PIECES = st.text(st.sampled_from("ab. \n"), min_size=1, max_size=8)


@given(window=WINDOWS, order=st.lists(st.tuples(st.sampled_from(STREAMS), PIECES), max_size=30))
def test_thoughts_and_answers_of_two_conversations_never_mix(window, order):
    whole = {name: "".join(text for stream, text in order if stream == name) for name in STREAMS}
    begun = {name for name, text in whole.items() if text}
    alone = {name: alone_through(window, [text for stream, text in order if stream == name]) for name in begun}

    async def interleaved() -> Thoughtful:
        chunks = await MemoryStore().open("chat-chunks", CHAT.registry(short_lived=True), short_lived=True)
        screen, next_index = Thoughtful(window), dict.fromkeys(STREAMS, 0)
        async with showing(chunks, screen):
            for name, text in order:
                thought = name.endswith(".thought")
                await write(chunks, name, text, first=next_index[name], complete=False, thought=thought)
                next_index[name] += 1
            for name in sorted(begun):
                await write(chunks, name)
            await screen.until(lambda: {*screen.completed, *screen.thoughts.completed} == begun)
        return screen

    screen = asyncio.run(interleaved())
    shown = {**screen.texts, **screen.thoughts.texts}
    assert {name: "".join(pieces) for name, pieces in shown.items()} == {name: whole[name] for name in begun}
    assert shown == alone
    assert not any(name.endswith(".thought") for name in screen.texts)
    assert all(name.endswith(".thought") for name in screen.thoughts.texts)


def alone_through(window: Window, texts: list[str]) -> list[str]:
    """What goes through a window of a stream that is the only one."""
    held, through = Held(), list[str]()
    for text in texts:
        pieces, held = take(window, held, text)
        through += pieces
    return [*through, held.text] if held.text else through
