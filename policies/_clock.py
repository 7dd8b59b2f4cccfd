"""Time, as something that a test can hold in its hand."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Alarm(Protocol):
    """Something that will happen at a time, unless it is cancelled."""

    def cancel(self) -> None:
        """Let it not happen; nothing when it has happened already."""
        ...


class Clock(Protocol):
    """Tells the time and rings at one. `SystemClock` is the real one; `coven.testing` has one that tests move."""

    def now(self) -> float:
        """Seconds since the epoch, UTC."""
        ...

    def call_at(self, when: float, callback: Callable[[], object]) -> Alarm:
        """Call back once at this time, or soon if it is past already."""
        ...


class SystemClock:
    """The machine's clock and the running event loop's timers.

    An event loop's time stands still while the machine sleeps. So when something is due in more than `look_again_s`
    seconds, it looks at the machine's clock again after these.
    """

    def __init__(self, look_again_s: float = 60.0) -> None:
        self._look_again_s = look_again_s

    def __repr__(self) -> str:
        return "<SystemClock>"

    def now(self) -> float:
        """See `Clock.now`."""
        return time.time()

    def call_at(self, when: float, callback: Callable[[], object]) -> Alarm:
        """See `Clock.call_at`."""
        left = when - time.time()
        if left <= self._look_again_s:
            return asyncio.get_running_loop().call_later(max(0.0, left), callback)
        return _FarAlarm(self._look_again_s, when, callback)


class _FarAlarm:
    """An alarm that looks again and again how long it still is."""

    def __init__(self, look_again_s: float, when: float, callback: Callable[[], object]) -> None:
        self._look_again_s, self._when, self._callback = look_again_s, when, callback
        self._look()

    def cancel(self) -> None:
        """See `Alarm.cancel`."""
        self._next.cancel()

    def _look(self) -> None:
        left, loop = self._when - time.time(), asyncio.get_running_loop()
        if left > self._look_again_s:
            self._next: Alarm = loop.call_later(self._look_again_s, self._look)
        else:
            self._next = loop.call_later(max(0.0, left), self._callback)


async def sleep_until(clock: Clock, when: float) -> None:
    """Wait until this time; not at all when it is past."""
    if clock.now() >= when:
        return
    bell: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    alarm = clock.call_at(when, lambda: bell.done() or bell.set_result(None))
    try:
        await bell
    finally:
        alarm.cancel()
