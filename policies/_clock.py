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
    """The machine's clock and the running event loop's timers."""

    def __repr__(self) -> str:
        return "<SystemClock>"

    def now(self) -> float:
        """See `Clock.now`."""
        return time.time()

    def call_at(self, when: float, callback: Callable[[], object]) -> Alarm:
        """See `Clock.call_at`."""
        return asyncio.get_running_loop().call_later(max(0.0, when - time.time()), callback)


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
