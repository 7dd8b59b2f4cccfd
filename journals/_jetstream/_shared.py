"""One reading of a stream for all tails of a process: each message crosses the wire and is taken apart once.

A tail that begins further back, or that was too slow to keep up, reads what it lacks by itself and joins again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from journals._jetstream._reading import Reading, read_all
from journals._jetstream._streams import Stream
from journals._log import Hears, Message, Stored

_KEEP = 4096
_KEEP_BYTES = 32 * 1024 * 1024


class _Listener:
    """What has come for one tail and was not taken yet; `missed` once that was more than is kept.

    While its tail reads what lies further back it keeps all that comes; from `go_live` on only what `hears` accepts,
    so that nobody is woken for the rest.
    """

    __slots__ = ("_hears", "bytes", "error", "missed", "waiter", "waiting")

    def __init__(self) -> None:
        self.waiting: list[Stored] = []
        self.bytes = 0
        self.missed = False
        self.error: Exception | None = None
        self.waiter: asyncio.Future[None] | None = None
        self._hears: Hears | None = None

    def go_live(self, hears: Hears) -> None:
        """Look through what has come meanwhile, in order, and from now on at once."""
        self.waiting = [stored for stored in self.waiting if hears(stored)]
        self._hears = hears

    def give(self, group: list[Stored]) -> None:
        if self.missed or self.error is not None:  # another reading gives what comes behind a gap
            return
        if self._hears is not None:
            group = [stored for stored in group if self._hears(stored)]
            if not group:
                return
        self.bytes += sum([len(stored.body) for stored in group])
        if len(self.waiting) + len(group) > _KEEP or self.bytes > _KEEP_BYTES:
            self.missed = True
        else:
            self.waiting.extend(group)
        self.wake()

    def wake(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    async def take(self) -> list[Stored]:
        """What is waiting, at least one message; nothing when some was missed. Raises what ended the reading."""
        while not self.waiting and not self.missed:
            if self.error is not None:
                raise self.error
            self.waiter = asyncio.get_running_loop().create_future()
            await self.waiter
        group, self.waiting, self.bytes = self.waiting, [], 0
        return group


class SharedTail:
    """All tails of one stream over one connection."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._listeners: set[_Listener] = set()
        self._reading: asyncio.Task[None] | None = None
        self._source: Reading | None = None
        self._started = asyncio.Lock()
        self._position = 0

    def __repr__(self) -> str:
        return f"<SharedTail {self._stream.name} at {self._position} for {len(self._listeners)}>"

    async def tail(self, after: int, hears: Hears) -> AsyncGenerator[list[Stored]]:
        """See `Log.tail`."""

        def hears_later(stored: Stored) -> bool:
            return stored.position > after and hears(stored)

        while True:
            listener = await self._join()
            try:
                async with aclosing(read_all(self._stream, after, self._position)) as groups:
                    async for group in groups:
                        heard = [stored for stored in group if hears(stored)]
                        after = group[-1].position
                        if heard:
                            yield heard
                listener.go_live(hears_later)
                while heard := await listener.take():
                    yield heard
                    after = heard[-1].position
            finally:
                self._leave(listener)

    async def _join(self) -> _Listener:
        async with self._started:
            if self._reading is None or self._reading.done():
                self._position = (await self._stream.state())["last_seq"]
                self._reading = asyncio.create_task(self._read(), name=f"tail of {self._stream.name}")
            listener = _Listener()
            self._listeners.add(listener)
            return listener

    @property
    def listened_to(self) -> bool:
        """Whether anybody is to hear at once of what this process writes."""
        return self._source is not None

    def wrote(self, messages: Sequence[Message], last: int) -> None:
        """Hand on what this process wrote, at consecutive positions up to `last`, as soon as it is acknowledged.

        The server will send it as well, later. Only what stands right behind all that was handed on
        already; behind what others wrote the server's word is waited for.
        """
        if self._source is None:
            return
        first = last - len(messages) + 1
        known = first == self._position + 1
        self._source.wrote(first, last, known=known)
        if not known:
            return
        now = time.time()
        self._give(
            [
                Stored(position, message.subject, message.headers, message.body, now)
                for position, message in enumerate(messages, first)
            ]
        )

    def _give(self, group: list[Stored]) -> None:
        if group[0].position <= self._position:
            group = [stored for stored in group if stored.position > self._position]
            if not group:
                return
        self._position = group[-1].position
        for listener in self._listeners:
            listener.give(group)

    def _leave(self, listener: _Listener) -> None:
        self._listeners.discard(listener)
        if not self._listeners and self._reading is not None:
            self._reading.cancel()
            self._reading = self._source = None

    async def _read(self) -> None:
        try:
            async with Reading(self._stream, self._position) as reading:
                self._source = reading
                try:
                    while True:
                        self._give(await reading.next_group())
                finally:
                    if self._source is reading:
                        self._source = None
        except Exception as error:  # noqa: BLE001 - whatever ends the reading is raised by every tail of it
            for listener in self._listeners:
                listener.error = error
                listener.wake()
