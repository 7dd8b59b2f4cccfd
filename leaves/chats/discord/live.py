"""Answers that are shown while they are being written: a message that is edited, and not too often."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from branches.chat.leaf import DeliveryFailed
from leaves.chats.discord.outgoing import Part, nonce, unfinished
from policies import Clock

_log = logging.getLogger("coven.chat")


class Away(Exception):
    """Discord did not answer, or not well: what was asked may have happened or not."""


class Room(Protocol):
    """What is needed of Discord to show an answer. All raise `DeliveryFailed` and `Away`."""

    async def send(self, channel: int, part: Part, nonce: str, reply_to: int | None) -> int:
        """Send a message; gives its id."""
        ...

    async def edit(self, channel: int, message: int, part: Part) -> bool:
        """Replace a message; False when it is there no more."""
        ...

    async def delete(self, channel: int, message: int) -> None:
        """Delete a message."""
        ...


class Live:
    """One answer that is being written. It has the text of the stream that began last; earlier ones led up to it."""

    def __init__(self, room: Room, channel: int, reply_to: int | None, clock: Clock, every_s: float) -> None:
        self._room, self._channel, self._reply_to = room, channel, reply_to
        self._clock, self._every_s = clock, every_s
        self.stream, self._text = "", ""
        self.messages: list[int] = []
        self._shown: list[str] = []
        self._changed, self._closed = asyncio.Event(), asyncio.Event()
        self._ended = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Live in {self._channel}: {len(self._text)} characters in {len(self.messages)} messages>"

    def begin(self, stream: str) -> None:
        """From now on it is this stream that is shown."""
        self.stream, self._text = stream, ""

    def write(self, text: str) -> None:
        """More of the stream's text."""
        self._text += text
        self._changed.set()

    async def run(self) -> None:
        """Keep the messages as the text is, until closed; when Discord refuses, no more is shown."""
        try:
            while not self._closed.is_set():
                await self._until_changed()
                if self._closed.is_set():
                    return
                await self._update(unfinished(self._text))
                await self._pause()
        except (DeliveryFailed, Away) as error:
            _log.warning("an answer is not shown while it is being written: %s", error)
        finally:
            self._ended.set()

    async def close(self) -> list[int]:
        """Stop; gives the messages that there are, once nothing is under way any more."""
        self._closed.set()
        self._changed.set()
        await self._ended.wait()
        return self.messages

    async def _update(self, texts: list[str]) -> None:
        for number, text in enumerate(texts):
            part = Part(text)
            if number == len(self.messages):
                reply_to = self._reply_to if number == 0 else None
                id = nonce(self.stream, number)
                self.messages.append(await self._room.send(self._channel, part, id, reply_to))
                self._shown.append(text)
            elif self._shown[number] != text:
                await self._room.edit(self._channel, self.messages[number], part)
                self._shown[number] = text
            if self._closed.is_set():
                return
        while len(self.messages) > len(texts):
            await self._room.delete(self._channel, self.messages[-1])
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
