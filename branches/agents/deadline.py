"""Deadlines on the injected clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from contextlib import contextmanager
from typing import TypeVar

from policies import Alarm, Clock

T = TypeVar("T")


class Deadline:
    """A time, in seconds since the epoch, that work is bound to, and that stands still while it is paused."""

    def __init__(self, clock: Clock, when: float) -> None:
        self._clock, self.when = clock, when
        self._pauses = 0
        self._task: asyncio.Task[object] | None = None
        self._alarm: Alarm | None = None
        self._passed = False

    def __repr__(self) -> str:
        return f"<Deadline {self.when:.3f}{' paused' if self._pauses else ''}>"

    async def bound(self, work: Awaitable[T]) -> T:
        """What the work gives. Raises `TimeoutError` when the time comes first; the work has then been cancelled."""
        task = self._task = asyncio.ensure_future(work)
        self._set()
        try:
            return await task
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
            current = asyncio.current_task()
            if self._passed and (current is None or not current.cancelling()):
                raise TimeoutError from None
            raise
        finally:
            self._unset()

    @contextmanager
    def paused(self) -> Generator[None]:
        """Nothing is cut off meanwhile. `later` says afterwards by how much it is put off."""
        self._pauses += 1
        self._unset()
        try:
            yield
        finally:
            self._pauses -= 1
            self._set()

    def later(self, seconds: float) -> None:
        """Put it off."""
        self.when += max(0.0, seconds)

    def _set(self) -> None:
        if not self._pauses and self._task is not None and not self._task.done():
            self._alarm = self._clock.call_at(self.when, self._stop)

    def _unset(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _stop(self) -> None:
        if self._task is not None and not self._task.done():
            self._passed = True
            self._task.cancel()


async def within(clock: Clock, seconds: float, work: Awaitable[T]) -> T:
    """What the work gives. Raises `TimeoutError` when it takes longer, and has cancelled it then."""
    return await Deadline(clock, clock.now() + seconds).bound(work)
