"""Publishing with an acknowledgement window of our own.

`nats-py`'s asynchronous publish loses futures on server errors and stalls after a restart. Here every publish has a
future that always ends: acknowledged, refused, or unacknowledged once the server is lost or silent.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

import msgspec
import nats.errors

from journals._errors import (
    BatchLost,
    FenceRefused,
    JournalError,
    StoreFull,
    StoreMismatch,
    StoreRefused,
    StoreUnavailable,
    Unacknowledged,
)
from journals._jetstream._connection import Connection

FENCE, FENCE_SUBJECT = "Nats-Expected-Last-Subject-Sequence", "Nats-Expected-Last-Subject-Sequence-Subject"
WINDOW = 2048
ACK_TIMEOUT = 10.0
_FENCE_CODES = {10071, 10164}
_FULL_CODES = {10047, 10077, 10023, 10122, 10054}
_MISMATCH_CODES = {10174, 10175, 10177, 10178, 10179}
_LOST_CODES = {10176, 10210}  # part of a batch did not arrive; too many batches at once
_AGAIN_CODES = {10008, 10167}  # no leader now, too busy


class _ApiError(msgspec.Struct):
    code: int
    description: str = ""
    err_code: int = 0


class _Ack(msgspec.Struct):
    seq: int = 0
    error: _ApiError | None = None


_decode = msgspec.json.Decoder(_Ack).decode


Acknowledged = Callable[[int], None]
"""Is told the position of a message when its acknowledgement comes; must be quick and must not raise."""


class Publisher:
    """Sends messages and gives a future for each acknowledgement, at most 2,048 waiting at once.

    What is kept for each is numbers, texts and its future: thousands wait at once, and whatever the garbage collector
    has to look through is looked through many times while they do.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._client = connection.client
        self._waiting: dict[int, asyncio.Future[int]] = {}
        self._subjects: dict[int, str] = {}
        self._to_tell: dict[int, Acknowledged] = {}
        self._queue: deque[asyncio.Future[None]] = deque()
        self._number = 0
        self._prefix = f"{self._client.new_inbox()}."
        self._cut = len(self._prefix)
        self._marks: deque[tuple[float, int]] = deque()
        self._sweeper: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    def __repr__(self) -> str:
        return f"<Publisher {len(self._waiting)} waiting, {len(self._queue)} queued>"

    async def open(self) -> None:
        """Begin to listen for acknowledgements."""
        await self._client.listen_to_replies(f"{self._prefix}*", self._acknowledged)
        self._connection.on_lost.append(self._lost)
        self._connection.on_denied.append(self._denied)

    def publish(
        self, subject: str, headers: dict[str, str], body: bytes, tell: Acknowledged | None = None
    ) -> Awaitable[int]:
        """Send one message, now or as soon as the window has room; what is awaited gives its position.

        `tell` hears of it before whoever waits. Awaiting raises `FenceRefused`, `Unacknowledged`, `StoreFull`,
        `StoreUnavailable` or `StoreMismatch`.
        """
        if len(self._waiting) < WINDOW:
            return self._post(subject, headers, body, tell)
        return self._post_later(subject, headers, body, tell)

    async def _post_later(self, subject: str, headers: dict[str, str], body: bytes, tell: Acknowledged | None) -> int:
        while len(self._waiting) >= WINDOW:
            turn = self._loop.create_future()
            self._queue.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                self._wake_next()  # the turn may have come already; it is somebody else's now
                raise
        return await self._post(subject, headers, body, tell)

    def _post(
        self, subject: str, headers: dict[str, str], body: bytes, tell: Acknowledged | None
    ) -> asyncio.Future[int]:
        self._number += 1
        number = self._number
        future: asyncio.Future[int] = self._loop.create_future()
        self._waiting[number] = future
        self._subjects[number] = subject
        if tell is not None:
            self._to_tell[number] = tell
        if self._sweeper is None:
            self._sweep()
        try:
            # Where nothing else is under way, one write waits for this one.
            alone = len(self._waiting) == 1
            self._client.publish_checked(((subject, headers, body),), f"{self._prefix}{number}", at_once=alone)
        except nats.errors.MaxPayloadError:
            self._done(number)
            future.set_exception(
                StoreUnavailable(f"the server takes no message of {len(body):,} bytes: raise its limit")
            )
        except (nats.errors.Error, OSError) as error:
            self._done(number)
            future.set_exception(Unacknowledged(f"not sent: {error or type(error).__name__}"))
        return future

    def send_all(self, messages: Iterable[tuple[str, dict[str, str], bytes]]) -> None:
        """Send without waiting for anything, nor for knowing whether it went well."""
        with suppress(nats.errors.Error, OSError):
            self._client.publish_checked(messages)

    def close(self) -> None:
        """End every waiting future as unacknowledged."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._lost()

    def _acknowledged(self, subject: bytes, body: bytes) -> None:
        try:
            number = int(subject[self._cut :])
        except ValueError:
            return
        future = self._waiting.get(number)
        if future is None:
            return
        tell = self._to_tell.get(number)
        self._done(number)
        if not body:  # status 503: no responders, so nobody stored it
            _fail(future, Unacknowledged("the server has no JetStream for this subject right now"))
            return
        try:
            ack = _decode(body)
        except msgspec.MsgspecError as error:
            _fail(future, Unacknowledged(f"the acknowledgement cannot be read: {error}"))
            return
        if ack.error is not None:
            _fail(future, _error_of(ack.error))
            return
        if tell is not None:
            tell(ack.seq)
        if not future.done():
            future.set_result(ack.seq)

    def _done(self, number: int) -> None:
        self._waiting.pop(number, None)
        self._subjects.pop(number, None)
        self._to_tell.pop(number, None)
        if self._queue:
            self._wake_next()

    def _wake_next(self) -> None:
        """Wake the first one who still waits for a place in the window."""
        while self._queue and len(self._waiting) < WINDOW:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def _end(self, number: int, error: Exception) -> None:
        future = self._waiting[number]
        self._done(number)
        _fail(future, error)

    def _denied(self, subject: str) -> None:
        """The server does not permit this subject (given in lower case), and will not answer."""
        for number, waiting in list(self._subjects.items()):
            if waiting.lower() == subject:
                error = StoreRefused(
                    f"the server at {self._connection.url} does not permit writing to {waiting!r}; "
                    "docs/jetstream.md lists what Coven needs"
                )
                self._end(number, error)

    def _lost(self) -> None:
        for number in list(self._waiting):
            self._end(number, Unacknowledged("the connection was lost before the acknowledgement came"))

    def _sweep(self) -> None:
        """End what waits longer than it should; looks ten times in that time, so it may wait a tenth longer."""
        now = self._loop.time()
        overdue = 0
        while self._marks and self._marks[0][0] <= now - ACK_TIMEOUT:
            overdue = self._marks.popleft()[1]
        for number in list(self._waiting) if overdue else ():
            if number > overdue:
                break
            self._end(number, Unacknowledged(f"no acknowledgement within {ACK_TIMEOUT:.0f} s"))
        if self._waiting:
            self._marks.append((now, self._number))
            self._sweeper = self._loop.call_later(ACK_TIMEOUT / 10, self._sweep)
        else:
            self._marks.clear()
            self._sweeper = None


def _fail(future: asyncio.Future[int], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


def _error_of(error: _ApiError) -> JournalError:
    if error.err_code in _FENCE_CODES:
        return FenceRefused(error.description)
    if error.err_code in _LOST_CODES:
        return BatchLost(f"the server did not take this batch: {error.description}")
    if error.err_code in _AGAIN_CODES:
        return Unacknowledged(f"the server did not take it now: {error.description}")
    if error.err_code in _FULL_CODES or "maximum" in error.description or "insufficient" in error.description:
        return StoreFull(
            f"the store refuses to take more ({error.description}); what was acknowledged is safe: raise the limit "
            "(max_bytes, disk) and start again, it goes on where it stopped"
        )
    if error.err_code in _MISMATCH_CODES:
        return StoreMismatch(
            f"the server refuses an atomic batch ({error.description}); Coven needs NATS 2.14 or newer"
        )
    return StoreUnavailable(f"the server refuses to store this ({error.description}, code {error.err_code})")
