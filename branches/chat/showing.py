"""Messages that are still being written, on their way from the short-lived journal through a window to the leaf."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import cast

import msgspec

from branches.chat.entries import ChatChunk, ChatStreamCompleted
from branches.chat.leaf import StreamingLeaf, ThinkingLeaf, WindowedLeaf
from branches.chat.windows import Window, Windows
from journals import Entry, Journal, Record
from policies import Clock

_AHEAD = 100
_STREAMS = 1000

Piece = Record[ChatChunk | ChatStreamCompleted]


class Showing:
    """Shows a leaf each stream through its window, in order and without a gap; thoughts only a leaf that wants them.

    Pieces travel at most once. So when one is missing, and for a stream that began before we listened, nothing more is
    shown until the message itself arrives: a text with a hole in it misleads.
    """

    def __init__(self, leaf: StreamingLeaf, clock: Clock) -> None:
        self._leaf = leaf
        window = leaf.window if isinstance(leaf, WindowedLeaf) else Window()
        self._windows = Windows(window, clock, self._let_through, limit=_STREAMS)
        self._open: dict[str, _Open] = {}
        self._queue: asyncio.Queue[tuple[bool, Piece]] = asyncio.Queue()

    def __repr__(self) -> str:
        return f"<Showing {len(self._open)} streams>"

    async def run(self, journal: Journal, after: int) -> None:
        """Show what comes behind this position until cancelled. Raises what the leaf and the journal raise."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._show())
                await self._listen(journal, after)
        finally:
            self._windows.close()

    async def _listen(self, journal: Journal, after: int) -> None:
        kinds = [ChatChunk.kind(), ChatStreamCompleted.kind()]
        async with aclosing(journal.tail(after, kinds=kinds)) as records:
            async for record in records:
                self._take(record)
                if self._queue.qsize() >= _AHEAD:
                    await self._queue.join()

    async def _show(self) -> None:
        thinking = self._leaf if isinstance(self._leaf, ThinkingLeaf) else None
        while True:
            thought, piece = await self._queue.get()
            if not thought:
                await self._leaf.show(piece)
            elif thinking is not None:
                await thinking.show_thought(piece)
            self._queue.task_done()

    def _take(self, record: Record[Entry]) -> None:
        entry = record.entry
        if isinstance(entry, ChatChunk):
            if entry.thought and not isinstance(self._leaf, ThinkingLeaf):
                return
            stream = self._open.get(entry.stream)
            if stream is None and entry.index == 0:
                stream = self._open[entry.stream] = _Open(cast("Record[ChatChunk]", record))
                if len(self._open) > _STREAMS:
                    self._forget(next(iter(self._open)))
            if stream is None or entry.index != stream.wanted:
                self._forget(entry.stream)
                return
            stream.wanted += 1
            for text in self._windows.write(entry.stream, entry.text):
                self._let_through(entry.stream, text)
        elif isinstance(entry, ChatStreamCompleted) and entry.stream in self._open:
            rest = self._windows.complete(entry.stream)
            if rest:
                self._let_through(entry.stream, rest)
            thought = self._open[entry.stream].first.entry.thought
            self._forget(entry.stream)
            self._queue.put_nowait((thought, cast("Record[ChatStreamCompleted]", record)))

    def _let_through(self, stream: str, text: str) -> None:
        known = self._open[stream]
        thought = known.first.entry.thought
        entry = ChatChunk(stream=stream, index=known.shown, text=text, thought=thought)
        known.shown += 1
        self._queue.put_nowait((thought, msgspec.structs.replace(known.first, entry=entry)))

    def _forget(self, stream: str) -> None:
        self._windows.complete(stream)
        self._open.pop(stream, None)


class _Open:
    """A stream that is being shown: its first record, the piece that comes next, and how many went through."""

    def __init__(self, first: Record[ChatChunk]) -> None:
        self.first, self.wanted, self.shown = first, 0, 0
