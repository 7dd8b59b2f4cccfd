"""Publishing with an acknowledgement window of our own.

`nats-py`'s asynchronous publish loses futures on server errors and stalls after a restart. Here every publish has a
future that always ends: acknowledged, refused, or unacknowledged once the server is lost or silent.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

import msgspec
import nats.errors

from journals._errors import (
    FenceRefused,
    JournalError,
    StoreFull,
    StoreMismatch,
    StoreRefused,
    StoreUnavailable,
    Unacknowledged,
)
from journals._jetstream._client import Delivery
from journals._jetstream._connection import Connection

FENCE, FENCE_SUBJECT = "Nats-Expected-Last-Subject-Sequence", "Nats-Expected-Last-Subject-Sequence-Subject"
WINDOW = 2048
ACK_TIMEOUT = 10.0
_FENCE_CODES = {10071, 10164}
_FULL_CODES = {10047, 10077, 10023, 10122, 10054}
_MISMATCH_CODES = {10174, 10175, 10177, 10178, 10179}
_AGAIN_CODES = {10008, 10167, 10176, 10210}  # no leader now, too busy, part of a batch lost, too many batches at once


class _ApiError(msgspec.Struct):
    code: int
    description: str = ""
    err_code: int = 0


class _Ack(msgspec.Struct):
    seq: int = 0
    error: _ApiError | None = None


_decode = msgspec.json.Decoder(_Ack).decode


class Publisher:
    """Sends messages and gives a future for each acknowledgement, at most 2,048 waiting at once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._client = connection.client
        self._waiting: dict[str, tuple[asyncio.Future[int], float, str]] = {}
        self._queue: deque[asyncio.Future[None]] = deque()
        self._number = 0
        self._prefix = f"{self._client.new_inbox()}."
        self._sweeper: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    def __repr__(self) -> str:
        return f"<Publisher {len(self._waiting)} waiting, {len(self._queue)} queued>"

    async def open(self) -> None:
        """Begin to listen for acknowledgements."""
        await self._client.listen(f"{self._prefix}*", self._acknowledged)
        self._connection.on_lost.append(self._lost)
        self._connection.on_denied.append(self._denied)

    async def publish(self, subject: str, headers: dict[str, str], body: bytes) -> asyncio.Future[int]:
        """Send one message; the future gives its position. Waits while the window is full.

        The future raises `FenceRefused`, `Unacknowledged`, `StoreFull`, `StoreUnavailable` or `StoreMismatch`.
        """
        while len(self._waiting) >= WINDOW:
            turn = self._loop.create_future()
            self._queue.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                self._wake_next()  # the turn may have come already; it is somebody else's now
                raise
        self._number += 1
        token = str(self._number)
        future: asyncio.Future[int] = self._loop.create_future()
        self._waiting[token] = (future, self._loop.time() + ACK_TIMEOUT, subject)
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(ACK_TIMEOUT, self._sweep)
        try:
            self._client.publish_checked([(subject, headers, body)], self._prefix + token)
        except nats.errors.MaxPayloadError:
            self._done(token)
            future.set_exception(
                StoreUnavailable(f"the server takes no message of {len(body):,} bytes: raise its limit")
            )
        except (nats.errors.Error, OSError) as error:
            self._done(token)
            future.set_exception(Unacknowledged(f"not sent: {error or type(error).__name__}"))
        return future

    def send_all(self, messages: Sequence[tuple[str, dict[str, str], bytes]]) -> None:
        """Send without waiting for anything, nor for knowing whether it went well."""
        with suppress(nats.errors.Error, OSError):
            self._client.publish_checked(messages)

    def close(self) -> None:
        """End every waiting future as unacknowledged."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._lost()

    def _acknowledged(self, delivery: Delivery) -> None:
        token = delivery.subject[len(self._prefix) :]
        waiting = self._waiting.get(token)
        if waiting is None:
            return
        self._done(token)
        future = waiting[0]
        if future.done():
            return
        if not delivery.body:  # status 503: no responders, so nobody stored it
            future.set_exception(Unacknowledged("the server has no JetStream for this subject right now"))
            return
        try:
            ack = _decode(delivery.body)
        except msgspec.MsgspecError as error:
            future.set_exception(Unacknowledged(f"the acknowledgement cannot be read: {error}"))
            return
        if ack.error is None:
            future.set_result(ack.seq)
        else:
            future.set_exception(_error_of(ack.error))

    def _done(self, token: str) -> None:
        self._waiting.pop(token, None)
        if self._queue:
            self._wake_next()

    def _wake_next(self) -> None:
        """Wake the first one who still waits for a place in the window."""
        while self._queue and len(self._waiting) < WINDOW:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def _denied(self, subject: str) -> None:
        """The server does not permit this subject (given in lower case), and will not answer."""
        for token, (future, _, waiting) in list(self._waiting.items()):
            if waiting.lower() == subject:
                self._done(token)
                if not future.done():
                    future.set_exception(
                        StoreRefused(
                            f"the server at {self._connection.url} does not permit writing to {waiting!r}; "
                            "docs/jetstream.md lists what Coven needs"
                        )
                    )

    def _lost(self) -> None:
        for token, (future, _, _) in list(self._waiting.items()):
            self._done(token)
            if not future.done():
                future.set_exception(Unacknowledged("the connection was lost before the acknowledgement came"))

    def _sweep(self) -> None:
        self._sweeper = None
        now = self._loop.time()
        for token, (future, deadline, _) in list(self._waiting.items()):
            if deadline > now:
                self._sweeper = self._loop.call_later(deadline - now, self._sweep)
                return
            self._done(token)
            if not future.done():
                future.set_exception(Unacknowledged(f"no acknowledgement within {ACK_TIMEOUT:.0f} s"))


def _error_of(error: _ApiError) -> JournalError:
    if error.err_code in _FENCE_CODES:
        return FenceRefused(error.description)
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
