"""Group commit: where the server waits for its disk, appends that wait at the same time share one flush of it."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from journals._errors import BatchLost, JournalError, Unacknowledged
from journals._log import Fence, Message

FEW = 8
MOST, MOST_BYTES = 1000, 4 * 1024 * 1024
SLOW_S = 100e-6
_MEASURED_S, _BELIEVED = 0.1, 65_536

Fenced = tuple[Message, Fence | None]


class _Waiting(NamedTuple):
    message: Message
    fence: Fence
    future: asyncio.Future[int]


class GroupCommit:
    """Sends appends one by one while few are under way, and gathers the others into atomic batches.

    A batch costs the server one flush of its disk, whatever its size, and more work than single appends where nothing
    is flushed. So appends are gathered where acknowledgements, while at least eight were waited for, came more than
    100 µs apart for 100 ms (they come in bunches); after each 65,536 that were gathered that is measured again. Each
    append keeps its own fence and its own answer: when a batch is refused, or lost in part, all in it are sent again
    one by one.
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
        self._under_way = 0
        self._is_slow = False
        self._began = 0.0
        self._answered = self._gathered = 0

    def __repr__(self) -> str:
        how = "gathers" if self._is_slow else "sends each at once"
        return f"<GroupCommit {how}, {self._under_way} under way, {len(self._queue)} waiting>"

    def append(self, message: Message, fence: Fence) -> Awaitable[int]:
        """Write one message behind its fence; what is awaited gives its position. Raises what `Log.append` raises."""
        if not self._queue and self._batch is None and (self._under_way < FEW or not self._is_slow):
            return self._send(message, fence)
        future: asyncio.Future[int] = self._loop.create_future()
        self._queue.append(_Waiting(message, fence, future))
        return future

    def _send(self, message: Message, fence: Fence) -> asyncio.Future[int]:
        sent = self._send_alone(message, fence)
        future = sent if isinstance(sent, asyncio.Future) else asyncio.ensure_future(sent)
        self._under_way += 1
        if self._under_way == FEW:
            self._answered = 0
        future.add_done_callback(self._sent)
        return future

    def _sent(self, _: asyncio.Future[int]) -> None:
        self._under_way -= 1
        if self._under_way >= FEW:
            self._measure()
        if self._queue:
            self._go_on()

    def _measure(self) -> None:
        now = self._clock()
        if self._answered == 0:  # not when it was sent: this loop may have been at work since, and heard nothing
            self._began = now
        self._answered += 1
        took = now - self._began
        if took >= _MEASURED_S:
            self._is_slow = took > SLOW_S * self._answered
            self._answered = 0

    def _go_on(self) -> None:
        """Send what waits: together where it is much, else one by one."""
        while self._queue and self._batch is None and (self._under_way < FEW or not self._is_slow):
            if self._is_slow and len(self._queue) > FEW:
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
            self._is_slow, self._gathered = False, 0
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
