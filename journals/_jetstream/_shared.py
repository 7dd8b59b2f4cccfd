"""One reading of a stream for all tails of a process: each message crosses the wire and is taken apart once.

A tail that begins further back, or that was too slow to keep up, reads what it lacks by itself and joins again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from journals._jetstream._connection import Connection
from journals._jetstream._direct import last_position
from journals._jetstream._reading import Reading, read_all
from journals._log import Hears, Stored

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
        if self.missed:
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

    def __init__(self, connection: Connection, stream: str, prefix: str) -> None:
        self._connection, self._stream, self._prefix = connection, stream, prefix
        self._listeners: set[_Listener] = set()
        self._reading: asyncio.Task[None] | None = None
        self._started = asyncio.Lock()
        self._position = 0

    def __repr__(self) -> str:
        return f"<SharedTail {self._stream} at {self._position} for {len(self._listeners)}>"

    async def tail(self, after: int, hears: Hears) -> AsyncGenerator[list[Stored]]:
        """See `Log.tail`."""

        def hears_later(stored: Stored) -> bool:
            return stored.position > after and hears(stored)

        while True:
            listener = await self._join()
            try:
                async for group in read_all(self._connection, self._stream, self._prefix, after, self._position):
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
                self._position = await last_position(self._connection, self._stream)
                self._reading = asyncio.create_task(self._read(), name=f"tail of {self._stream}")
            listener = _Listener()
            self._listeners.add(listener)
            return listener

    def _leave(self, listener: _Listener) -> None:
        self._listeners.discard(listener)
        if not self._listeners and self._reading is not None:
            self._reading.cancel()
            self._reading = None

    async def _read(self) -> None:
        try:
            async with Reading(self._connection, self._stream, self._prefix, self._position) as reading:
                while True:
                    group = await reading.next_group()
                    self._position = group[-1].position
                    for listener in self._listeners:
                        listener.give(group)
        except Exception as error:  # noqa: BLE001 - whatever ends the reading is raised by every tail of it
            for listener in self._listeners:
                listener.error = error
                listener.wake()
