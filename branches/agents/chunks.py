"""Streaming: pieces of utterances and of thoughts go to the chunk journal while they come. Nothing waits for them."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from branches.agents.entries import AgentChunk, AgentPrompt, AgentStreamCompleted
from journals import Journal, JournalError, Record, derive_id

_log = logging.getLogger("coven.agents")


class Stream(Protocol):
    """Takes one utterance's text, or a thought, as it comes."""

    @property
    def id(self) -> str:
        """What its chunks say that they are of."""
        ...

    @property
    def begun(self) -> bool:
        """Whether anything came."""
        ...

    def write(self, text: str) -> None:
        """A piece of the text."""
        ...

    def complete(self) -> None:
        """No more will come."""
        ...


class _Waiting:
    """What of one stream is not written yet."""

    def __init__(self, writer: ChunkWriter, prompt: Record[AgentPrompt], id: str, *, thought: bool) -> None:
        self.prompt, self.id, self.thought = prompt, id, thought
        self.begun = False
        self.text: list[str] = []
        self.written = 0
        self.completed = False
        self._writer = writer

    def write(self, text: str) -> None:
        self.begun = True
        self.text.append(text)
        self._writer.wake(self)

    def complete(self) -> None:
        self.completed = True
        self._writer.wake(self)


class ChunkWriter:
    """Writes streams to the short-lived journal in the background; what comes faster than it writes, it joins."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._waiting: dict[str, _Waiting] = {}
        self._woken = asyncio.Event()

    def __repr__(self) -> str:
        return f"<ChunkWriter to {self._journal.name}: {len(self._waiting)} streams>"

    def open(self, prompt: Record[AgentPrompt], id: str, *, thought: bool = False) -> Stream:
        """A new stream in the prompt's session, with the prompt's correlation and origin; maybe that of a thought."""
        return _Waiting(self, prompt, id, thought=thought)

    def wake(self, waiting: _Waiting) -> None:
        """Something of this stream is to be written."""
        self._waiting[waiting.id] = waiting
        self._woken.set()

    async def run(self) -> None:
        """Write until cancelled. Chunks only inform: those that the journal refuses are dropped."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._waiting:
                waiting = self._waiting.pop(next(iter(self._waiting)))
                try:
                    await self._write(waiting)
                except JournalError as error:
                    _log.warning("a chunk of stream %s is dropped: %s", waiting.id, error)

    async def _write(self, waiting: _Waiting) -> None:
        text, waiting.text = "".join(waiting.text), []
        if text:
            waiting.written += 1
            chunk = AgentChunk(stream=waiting.id, index=waiting.written - 1, text=text, thought=waiting.thought)
            await self._append(waiting, chunk, derive_id(waiting.id, chunk.index))
        if waiting.completed and not waiting.text and waiting.written:
            completed = AgentStreamCompleted(stream=waiting.id)
            await self._append(waiting, completed, derive_id(waiting.id, "completed"))

    async def _append(self, waiting: _Waiting, entry: AgentChunk | AgentStreamCompleted, id: str) -> None:
        await self._journal.append(entry, session=waiting.prompt.session, id=id, cause=waiting.prompt)
