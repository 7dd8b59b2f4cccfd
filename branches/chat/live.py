"""Answers that are shown while they are being written: messages that are edited, and not too often."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from branches.chat.entries import ChatChunk, ChatStreamCompleted
from branches.chat.leaf import DeliveryFailed
from journals import Record
from policies import Clock, sleep_until

CURSOR = "▌"
"""Stands at the end of a message that is still being written."""
_REMEMBERED = 10_000
_AWAY_S = 5.0
_log = logging.getLogger("coven.chat")

Id = TypeVar("Id")


class Away(Exception):
    """The platform did not answer, or not well: what was asked may have happened or not."""


async def until_back(clock: Clock, error: Away) -> None:
    """Wait before a platform that is away is asked again, and say so in the log."""
    _log.warning("%s; trying again", error)
    await sleep_until(clock, clock.now() + _AWAY_S)


class Room(Protocol[Id]):
    """The place on a platform where one answer is shown. All raise `DeliveryFailed` and `Away`."""

    async def begin(self, stream: str, number: int, text: str) -> Id:
        """Send the numbered message of an answer that this stream writes; gives its id."""
        ...

    async def change(self, message: Id, text: str) -> object:
        """Replace the text of a message; it may be there no more."""
        ...

    async def remove(self, message: Id) -> None:
        """Delete a message; it may be gone already."""
        ...


class Live(Generic[Id]):
    """One answer that is being written. It has the text of the stream that began last; earlier ones led up to it.

    `split` gives the messages of a text that is still being written.
    """

    def __init__(self, room: Room[Id], split: Callable[[str], list[str]], clock: Clock, every_s: float) -> None:
        self._room, self._split = room, split
        self._clock, self._every_s = clock, every_s
        self.stream, self._text = "", ""
        self.messages: list[Id] = []
        self._shown: list[str] = []
        self._changed, self._closed = asyncio.Event(), asyncio.Event()
        self._ended = asyncio.Event()
        self.lost = False
        """Whether there may be a message that it does not know of."""

    def __repr__(self) -> str:
        return f"<Live {len(self._text)} characters in {len(self.messages)} messages>"

    def begin(self, stream: str) -> None:
        """From now on it is this stream that is shown."""
        self.stream, self._text = stream, ""

    def write(self, text: str) -> None:
        """More of the stream's text."""
        self._text += text
        self._changed.set()

    async def run(self) -> None:
        """Keep the messages as the text is, until closed; when the platform refuses, no more is shown."""
        try:
            while not self._closed.is_set():
                await self._until_changed()
                if self._closed.is_set():
                    return
                await self._update(self._split(self._text))
                await self._pause()
        except (DeliveryFailed, Away) as error:
            self.lost = isinstance(error, Away)
            _log.warning("an answer is not shown while it is being written: %s", error)
        finally:
            self._ended.set()

    async def close(self) -> list[Id]:
        """Stop; gives the messages that there are, once nothing is under way any more."""
        self._closed.set()
        self._changed.set()
        await self._ended.wait()
        return self.messages

    async def _update(self, texts: list[str]) -> None:
        for number, text in enumerate(texts):
            if number == len(self.messages):
                self.messages.append(await self._room.begin(self.stream, number, text))
                self._shown.append(text)
            elif self._shown[number] != text:
                await self._room.change(self.messages[number], text)
                self._shown[number] = text
            if self._closed.is_set():
                return
        while len(self.messages) > len(texts):
            await self._room.remove(self.messages[-1])
            del self.messages[-1], self._shown[-1]

    async def _until_changed(self) -> None:
        await self._changed.wait()
        self._changed.clear()

    async def _pause(self) -> None:
        """Wait until the next edit may be made, or nothing more is wanted."""
        over = asyncio.Event()
        alarm = self._clock.call_at(self._clock.now() + self._every_s, over.set)
        waits = [asyncio.ensure_future(over.wait()), asyncio.ensure_future(self._closed.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            alarm.cancel()
            for wait in waits:
                wait.cancel()


@dataclass(frozen=True)
class Shown(Generic[Id]):
    """What showed an answer while it was being written; `lost` is whether there may be more messages than these."""

    messages: list[Id]
    lost: bool = False


class Writings(Generic[Id]):
    """The answers that are being written, shown in each session in the order of their prompts, so that no answer stands
    above one that comes before it.
    """

    def __init__(
        self, tasks: asyncio.TaskGroup, split: Callable[[str], list[str]], clock: Clock, every_s: float
    ) -> None:
        self._tasks, self._split, self._clock, self._every_s = tasks, split, clock, every_s
        self._sessions: OrderedDict[str, str] = OrderedDict()
        self._turns: dict[str, deque[str]] = {}
        self._lives: dict[str, Live[Id]] = {}
        self._begun: set[str] = set()
        self._answered: OrderedDict[str, None] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Writings {len(self._begun)} answers being written>"

    @property
    def messages(self) -> set[Id]:
        """The messages that show an answer that is still being written."""
        return {message for live in self._lives.values() for message in live.messages}

    def expect(self, prompt: str, session: str) -> None:
        """A prompt of this id was recorded: what is written for it may be shown, unless it is answered already."""
        if prompt not in self._sessions and prompt not in self._answered:
            self._sessions[prompt] = session
            self._turns.setdefault(session, deque()).append(prompt)
            if len(self._sessions) > _REMEMBERED:
                self._forget(next(iter(self._sessions)))

    def show(self, chunk: Record[ChatChunk | ChatStreamCompleted], room: Callable[[], Room[Id]]) -> bool:
        """More of an answer; False if it is none that is expected. `room` gives where it is shown, when it is new."""
        entry, prompt = chunk.entry, chunk.correlation_id
        if prompt is None or prompt not in self._sessions or not isinstance(entry, ChatChunk):
            return False
        live = self._lives.get(prompt)
        if live is None:
            live = self._lives[prompt] = Live(room(), self._split, self._clock, self._every_s)
        if entry.index == 0:
            live.begin(entry.stream)
        if entry.stream == live.stream:
            live.write(entry.text)
        self._next(self._sessions[prompt])
        return True

    @asynccontextmanager
    async def answering(self, prompt: str, session: str) -> AsyncGenerator[Shown[Id]]:
        """While the answer to a prompt is sent into its session: gives what showed it.

        What comes late of it is shown no more, and no other answer of the session begins to be shown.
        """
        live, session = self._lives.pop(prompt, None), self._sessions.pop(prompt, session)
        turns = self._turns.setdefault(session, deque())
        if prompt not in turns:  # it was asked in an earlier life
            turns.appendleft(prompt)
        self._answered[prompt] = None
        if len(self._answered) > _REMEMBERED:
            self._answered.popitem(last=False)
        try:
            if live is not None and prompt in self._begun:
                messages = await live.close()
                yield Shown(messages, live.lost)
            else:
                yield Shown([])
        finally:
            self._begun.discard(prompt)
            while prompt in turns:  # those before it got no answer: what is answered later is not held up by them
                self._sessions.pop(turns.popleft(), None)
            self._next(session)

    def _next(self, session: str) -> None:
        """Begin to show the answer whose turn it is."""
        turns = self._turns.get(session)
        if not turns:
            self._turns.pop(session, None)
        elif turns[0] in self._lives and turns[0] not in self._begun:
            self._begun.add(turns[0])
            self._tasks.create_task(self._lives[turns[0]].run())

    def _forget(self, prompt: str) -> None:
        session = self._sessions.pop(prompt)
        self._turns[session].remove(prompt)
        self._next(session)
