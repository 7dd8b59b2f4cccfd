"""Deadlines on the injected clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from policies import Clock

T = TypeVar("T")


async def until(clock: Clock, when: float, work: Awaitable[T]) -> T:
    """What the work gives. Raises `TimeoutError` when this time comes first; the work has then been cancelled."""
    task = asyncio.ensure_future(work)
    passed = False

    def stop() -> None:
        nonlocal passed
        passed = not task.done()
        task.cancel()

    alarm = clock.call_at(when, stop)
    try:
        return await task
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait([task])
        current = asyncio.current_task()
        if passed and (current is None or not current.cancelling()):
            raise TimeoutError from None
        raise
    finally:
        alarm.cancel()


async def within(clock: Clock, seconds: float, work: Awaitable[T]) -> T:
    """The same, so many seconds from now."""
    return await until(clock, clock.now() + seconds, work)
