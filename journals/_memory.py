"""The memory store: the same contract without a server, for tests, for `cast()` in a library, and for replay."""

from __future__ import annotations

import asyncio
import bisect
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from operator import attrgetter

from journals._entry import EntryRegistry
from journals._errors import FenceRefused
from journals._ids import random_id
from journals._journal import Journal
from journals._log import Fence, Hears, Message, Stored
from journals._names import check_plain_name
from journals._store import SHORT_LIVED_S

_GROUP = 500
_FORGET_EVERY = 1000
SHORT_LIVED_MESSAGES = 100_000


class _Tail:
    """A reader that has come to the end. It is woken only for what it wants; `most` bounds what waits for it."""

    def __init__(self, after: int, hears: Hears, most: int | None) -> None:
        self._after, self._hears = after, hears
        self._heard: deque[Stored] = deque(maxlen=most)
        self._waiting: asyncio.Future[None] | None = None

    def meet(self, stored: Stored) -> None:
        """A message was written."""
        if stored.position > self._after and self._hears(stored):
            self._heard.append(stored)
            if self._waiting is not None and not self._waiting.done():
                self._waiting.set_result(None)

    async def heard(self) -> Sequence[Stored]:
        """What came that it wants, at most a group at a time."""
        if not self._heard:
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        return [self._heard.popleft() for _ in range(min(_GROUP, len(self._heard)))]


class MemoryLog:
    """A log in a list. Encoded like the real one, so that what works here works there.

    A short-lived one forgets what is older than ten minutes, and at most 101,000 messages are kept.
    """

    def __init__(self, name: str, clock: Callable[[], float], *, short_lived: bool = False) -> None:
        self.name, self._clock, self._short_lived = check_plain_name("journal", name), clock, short_lived
        self.incarnation = random_id()[:8]
        self._forgotten = 0
        self._messages: list[Stored] = []
        self._positions: dict[str, list[int]] = {}
        self._blobs: dict[str, bytes] = {}
        self._tails: dict[_Tail, None] = {}

    def __repr__(self) -> str:
        return f"<MemoryLog {self.name} {len(self._messages)} messages>"

    async def append(self, message: Message, fence: Fence | None = None) -> int:
        """See `Log.append`."""
        return await self.append_all([message], fence)

    async def append_all(self, messages: Sequence[Message], fence: Fence | None = None) -> int:
        """See `Log.append_all`."""
        if fence is not None and self._head(fence.subject) != fence.position:
            raise FenceRefused(f"{fence.subject} stands at {self._head(fence.subject)}, not at {fence.position}")
        for message in messages:
            position = self._forgotten + len(self._messages) + 1
            stored = Stored(position, message.subject, message.headers, message.body, self._clock())
            self._messages.append(stored)
            self._positions.setdefault(message.subject, []).append(position)
            for tail in self._tails:
                tail.meet(stored)
        last = self._forgotten + len(self._messages)
        if self._short_lived and last % _FORGET_EVERY < len(messages):
            self._forget()
        await asyncio.sleep(0)  # others get their turn, as they do while a server answers
        return last

    async def send(self, message: Message) -> None:
        """See `Log.send`."""
        await self.append_all([message])

    async def get(self, position: int) -> Stored | None:
        """See `Log.get`."""
        number = position - self._forgotten - 1
        return self._messages[number] if 0 <= number < len(self._messages) else None

    async def last(self, subject: str) -> Stored | None:
        """See `Log.last`."""
        return await self.get(self._head(subject))

    async def end(self) -> int:
        """See `Log.end`."""
        return self._forgotten + len(self._messages)

    async def verify(self) -> None:
        """See `Log.verify`."""

    async def read(self, subject: str | None, after: int, before: int | None) -> AsyncGenerator[Sequence[Stored]]:
        """See `Log.read`."""
        end = await self.end()
        stop = end if before is None else min(before - 1, end)
        if subject is None:
            while group := self._behind(after, min(max(after, self._forgotten) + _GROUP, stop)):
                yield group
                after = group[-1].position
            return
        positions = self._positions.get(subject, [])
        chosen = positions[bisect.bisect_right(positions, after) : bisect.bisect_right(positions, stop)]
        if chosen:
            yield [self._messages[position - self._forgotten - 1] for position in chosen]

    async def tail(self, after: int, hears: Hears) -> AsyncGenerator[Sequence[Stored]]:
        """See `Log.tail`."""
        while group := self._behind(after, max(after, self._forgotten) + _GROUP):
            after = group[-1].position
            heard = [stored for stored in group if hears(stored)]
            if heard:
                yield heard
        tail = _Tail(after, hears, SHORT_LIVED_MESSAGES if self._short_lived else None)
        self._tails[tail] = None
        try:
            while True:
                yield await tail.heard()
        finally:
            del self._tails[tail]

    async def put_blob(self, digest: str, body: bytes) -> None:
        """See `Log.put_blob`."""
        self._blobs[digest] = body

    async def get_blob(self, digest: str) -> bytes | None:
        """See `Log.get_blob`."""
        return self._blobs.get(digest)

    def _behind(self, after: int, upto: int) -> list[Stored]:
        """What is kept between two positions, the latter inclusive."""
        return self._messages[max(after - self._forgotten, 0) : max(upto - self._forgotten, 0)]

    def _forget(self) -> None:
        oldest = self._clock() - SHORT_LIVED_S
        number = bisect.bisect_left(self._messages, oldest, key=attrgetter("time"))
        number = max(number, len(self._messages) - SHORT_LIVED_MESSAGES)
        if number == 0:
            return
        for subject in {stored.subject for stored in self._messages[:number]}:
            positions = self._positions[subject]
            del positions[: bisect.bisect_right(positions, self._forgotten + number)]
            if not positions:
                del self._positions[subject]
        del self._messages[:number]
        self._forgotten += number

    def _head(self, subject: str) -> int:
        positions = self._positions.get(subject)
        return positions[-1] if positions else 0


class MemoryStore:
    """Journals in this process's memory, gone with it."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._logs: dict[str, MemoryLog] = {}

    def __repr__(self) -> str:
        return f"<MemoryStore {', '.join(self._logs) or 'empty'}>"

    async def open(self, name: str, registry: EntryRegistry, *, short_lived: bool = False) -> Journal:
        """The journal of this name, made if it is new. Each call is a writer of its own, as another process is."""
        log = self._logs.get(name)
        if log is None:
            log = self._logs[name] = MemoryLog(name, self._clock, short_lived=short_lived)
        return Journal(log, registry, clock=self._clock)

    async def close(self) -> None:
        """Nothing to release; the journals stay readable."""

    async def __aenter__(self) -> MemoryStore:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
