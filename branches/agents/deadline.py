"""Deadlines on the injected clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from policies import Alarm, Clock

T = TypeVar("T")
Due = Callable[[float], float | None]
"""When it is due, as it can be told at this time; None while that cannot be told."""


class Deadline:
    """A time, in seconds since the epoch, that work is bound to, and that may be put off while the work lasts.

    `when` is the earliest that it can be. When that time comes `due` is asked: nothing is cut off before the time that
    it gives, nor while it gives none. Then it is asked again when somebody calls `look`.
    """

    def __init__(self, clock: Clock, when: float, due: Due | None = None) -> None:
        self._clock, self._when = clock, when
        self._due: Due = (lambda _: when) if due is None else due
        self._task: asyncio.Task[object] | None = None
        self._alarm: Alarm | None = None
        self._passed = False

    def __repr__(self) -> str:
        state = "" if self._task is None or self._alarm is not None else " held"
        return f"<Deadline {self._when:.3f}{state}>"

    @property
    def has_passed(self) -> bool:
        """Whether it has cut work off, which tells its `TimeoutError` from one of the work's own."""
        return self._passed

    async def bound(self, work: Awaitable[T]) -> T:
        """What the work gives. Raises `TimeoutError` when the time comes first; the work has then been cancelled."""
        task = self._task = asyncio.ensure_future(work)
        self._alarm = self._clock.call_at(self._when, self._rings)
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
            self._task = None
            self._unset()

    def is_past(self, now: float) -> bool:
        """Whether it has come at this time."""
        if now < self._when:
            return False
        due = self._due(now)
        self._when = self._when if due is None else max(self._when, due)
        return due is not None and now >= due

    def look(self) -> None:
        """Something has happened that may end a time in which nobody could tell when it is due."""
        if self._alarm is None and self._task is not None:
            asyncio.get_running_loop().call_soon(self._look)

    def _rings(self) -> None:
        """Let those come first who have just been given what they waited for."""
        asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        task, now = self._task, self._clock.now()
        if task is None or task.done():
            return
        self._unset()
        if self.is_past(now):
            self._passed = True
            task.cancel()
        elif now < self._when:
            self._alarm = self._clock.call_at(self._when, self._rings)

    def _unset(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None


async def within(clock: Clock, seconds: float, work: Awaitable[T]) -> T:
    """What the work gives. Raises `TimeoutError` when it takes longer, and has cancelled it then."""
    return await Deadline(clock, clock.now() + seconds).bound(work)
