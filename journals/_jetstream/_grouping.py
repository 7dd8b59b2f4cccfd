"""Group commit: where the server waits for its disk, appends that wait at the same time share one flush of it."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from journals._errors import BatchLost, JournalError, Unacknowledged
from journals._log import Fence, Message

FEW, SOME = 8, 128
MOST, MOST_BYTES = 1000, 4 * 1024 * 1024
SLOW_S = 100e-6
_FIRST, _MEASURED, _BELIEVED = 3 * SOME, 2048, 65_536

Fenced = tuple[Message, Fence | None]


class _Waiting(NamedTuple):
    message: Message
    fence: Fence
    future: asyncio.Future[int]


class GroupCommit:
    """Sends appends one by one while few are under way, and gathers the others into atomic batches.

    A batch costs the server one flush of its disk, whatever its size, and more work than single appends where nothing
    is flushed. So appends are gathered where more than 100 µs are spent on waiting for each of 2,048 acknowledgements,
    those while at least eight were waited for; after each 65,536 that were gathered that is measured again. While it is
    not known, at most 128 are under way, and 384 acknowledgements are enough: the server answers what has reached it
    all together, so that nothing is learnt from thousands before they are all written. Each append keeps its own fence
    and its own answer: when a batch is refused, or lost in part, all in it are sent again one by one.
    """

    def __init__(
        self,
        send: Callable[[Message, Fence | None], Awaitable[int]],
        send_together: Callable[[Sequence[Fenced]], Awaitable[int]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._loop, self._clock = asyncio.get_running_loop(), clock
        self._send_alone, self._send_together = send, send_together
        self._queue: deque[_Waiting] = deque()
        self._batch: asyncio.Task[None] | None = None
        self._under_way, self._most = 0, SOME
        self._heard = self._waited = 0.0
        self._answered = self._gathered = 0

    def __repr__(self) -> str:
        how = {SOME: "tries", FEW: "gathers"}.get(self._most, "sends each at once")
        return f"<GroupCommit {how}, {self._under_way} under way, {len(self._queue)} waiting>"

    def append(self, message: Message, fence: Fence) -> Awaitable[int]:
        """Write one message behind its fence; what is awaited gives its position. Raises what `Log.append` raises."""
        if self._under_way < self._most and not self._queue and self._batch is None:
            return self._send(message, fence)
        future: asyncio.Future[int] = self._loop.create_future()
        self._queue.append(_Waiting(message, fence, future))
        return future

    def _send(self, message: Message, fence: Fence) -> asyncio.Future[int]:
        sent = self._send_alone(message, fence)
        future = sent if isinstance(sent, asyncio.Future) else asyncio.ensure_future(sent)
        self._under_way += 1
        self._heard = self._clock()
        future.add_done_callback(self._sent)
        return future

    def _sent(self, _: asyncio.Future[int]) -> None:
        self._under_way -= 1
        if self._under_way >= FEW:
            self._measure()
        if self._queue:
            self._go_on()

    def _measure(self) -> None:
        """Count the time in which nothing was sent and nothing heard: in the rest of it this process was at work."""
        now = self._clock()
        self._waited, self._heard = self._waited + now - self._heard, now
        self._answered += 1
        if self._answered >= (_FIRST if self._most == SOME else _MEASURED):
            self._most = FEW if self._waited > SLOW_S * self._answered else sys.maxsize
            self._waited, self._answered = 0.0, 0

    def _go_on(self) -> None:
        """Send what waits: together where it is much, else one by one."""
        while self._queue and self._batch is None and self._under_way < self._most:
            if self._most == FEW and len(self._queue) > FEW:
                self._batch = self._loop.create_task(self._commit(self._take()))
            else:
                self._pass_on(self._queue.popleft())

    def _take(self) -> list[_Waiting]:
        """The next batch. A subject stands in it once: each fence means the journal as it is, not the batch."""
        taken: list[_Waiting] = []
        subjects: set[str] = set()
        size = 0
        while self._queue and len(taken) < MOST and size < MOST_BYTES:
            one = self._queue[0]
            if one.message.subject in subjects:
                break
            self._queue.popleft()
            if not one.future.done():
                taken.append(one)
                subjects.add(one.message.subject)
                size += len(one.message.body)
        self._gathered += len(taken)
        if self._gathered >= _BELIEVED:
            self._most, self._gathered = SOME, 0
            self._waited, self._answered = 0.0, 0  # what has come since was sent before the others were gathered
        return taken

    async def _commit(self, taken: list[_Waiting]) -> None:
        try:
            last = await self._send_together([(one.message, one.fence) for one in taken]) if taken else 0
        except asyncio.CancelledError:
            for one in taken:
                one.future.cancel()  # nobody waits for what will never be answered
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, each of those who wait hears it
            for one in taken:
                if isinstance(error, Unacknowledged) and not isinstance(error, BatchLost):
                    _fail(one.future, Unacknowledged(str(error)))
                elif isinstance(error, JournalError):
                    self._pass_on(one)
                else:
                    _fail(one.future, error)
        else:
            for position, one in enumerate(taken, last - len(taken) + 1):
                if not one.future.done():
                    one.future.set_result(position)
        finally:
            self._batch = None
            self._go_on()

    def _pass_on(self, one: _Waiting) -> None:
        """Send it by itself, and give its answer to whoever waits for it."""
        if one.future.done():
            return

        def answered(sent: asyncio.Future[int]) -> None:
            if sent.cancelled():
                one.future.cancel()
            elif (error := sent.exception()) is not None:
                _fail(one.future, error)
            elif not one.future.done():
                one.future.set_result(sent.result())

        self._send(one.message, one.fence).add_done_callback(answered)


def _fail(future: asyncio.Future[int], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
