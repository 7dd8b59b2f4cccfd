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

FEW, SOME = 8, 64
MOST, MOST_BYTES = 1000, 4 * 1024 * 1024
_WORTH = 2.0
_BELIEVED_FIRST, _BELIEVED = 1024, 65_536

Fenced = tuple[Message, Fence | None]


class _Waiting(NamedTuple):
    message: Message
    fence: Fence
    future: asyncio.Future[int]


class GroupCommit:
    """Sends appends one by one while few are under way, and gathers the others into atomic batches.

    A batch costs the server one flush of its disk, whatever its size, and more work than single appends where nothing
    is flushed. Which it is, is found out by trying: so many single appends, with as many under way, against one batch
    of them. They are gathered where that took less than half the time. The first finding is believed for 1,024 appends,
    since a process that begins has much else to do, and each later one for 65,536. Each append keeps its own fence and
    its own answer: when a batch is refused, or lost in part, all in it are sent again one by one.
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
        self._began: float | None = None
        self._answered = 0
        self._alone_s: float | None = None
        self._since, self._believed = 0, _BELIEVED_FIRST

    def __repr__(self) -> str:
        how = {SOME: "tries", FEW: "gathers"}.get(self._most, "sends each at once")
        how = how if self._alone_s is None else "tries"
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
        if self._under_way == SOME and self._most == SOME and self._began is None:
            self._began, self._answered = self._clock(), 0
        future.add_done_callback(self._sent)
        return future

    def _sent(self, sent: asyncio.Future[int]) -> None:
        self._under_way -= 1
        if self._began is not None:
            self._time_alone(self._began, sent)
        self._wrote(1)
        if self._queue:
            self._go_on()

    def _time_alone(self, began: float, sent: asyncio.Future[int]) -> None:
        """The first half of a trial: one by one. A batch comes next."""
        self._answered += 1
        if sent.cancelled() or isinstance(sent.exception(), Unacknowledged):
            self._began = None  # that the connection is lost comes quickly, and tells nothing of the disk
        elif self._answered == SOME:
            self._alone_s, self._most, self._began = (self._clock() - began) / SOME, FEW, None
        elif self._under_way == 0:  # not as many as are to be compared
            self._began = None

    def _time_together(self, took: float, count: int) -> None:
        """The second half: what the batch took decides, unless it is a small one."""
        if self._alone_s is not None and count >= SOME // 2:
            self._most = FEW if self._alone_s * count > took * _WORTH else sys.maxsize
            self._alone_s, self._since = None, 0

    def _wrote(self, count: int) -> None:
        """What was found out is believed for so many, and then tried again."""
        self._since += count
        if self._since >= self._believed and self._most != SOME and self._alone_s is None:
            self._most, self._since, self._believed = SOME, 0, _BELIEVED

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
        most = MOST if self._alone_s is None else SOME
        while self._queue and len(taken) < most and size < MOST_BYTES:
            one = self._queue[0]
            if one.message.subject in subjects:
                break
            self._queue.popleft()
            if not one.future.done():
                taken.append(one)
                subjects.add(one.message.subject)
                size += len(one.message.body)
        return taken

    async def _commit(self, taken: list[_Waiting]) -> None:
        began = self._clock()
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
            self._time_together(self._clock() - began, len(taken))
            self._wrote(len(taken))
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
