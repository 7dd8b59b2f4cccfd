"""Answers that are shown while they are being written: messages that are edited, and not too often."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from branches.chat.leaf import DeliveryFailed
from policies import Clock

CURSOR = "▌"
"""Stands at the end of a message that is still being written."""
_log = logging.getLogger("coven.chat")

Id = TypeVar("Id")


class Away(Exception):
    """The platform did not answer, or not well: what was asked may have happened or not."""


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
