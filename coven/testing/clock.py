"""Clocks of tests: one stands still until it is moved, one jumps ahead to whatever is waited for."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable


class _Alarm:
    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        """See `Alarm.cancel`."""
        self.callback = None


class _SetClock:
    """A time that is set, and the alarms that ring at it, in order of their times and then of their setting."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self._now: float = now
        self._alarms: list[tuple[float, int, _Alarm]] = []
        self._set = 0

    def now(self) -> float:
        """See `Clock.now`."""
        return self._now

    def _put(self, when: float, callback: Callable[[], object]) -> _Alarm:
        alarm = _Alarm(callback)
        self._set += 1
        heapq.heappush(self._alarms, (when, self._set, alarm))
        return alarm


class ManualClock(_SetClock):
    """See `policies.Clock`. Give a store `clock=clock.now`, so that records carry the same time."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        super().__init__(now)
        self._changed = asyncio.Event()

    def __repr__(self) -> str:
        return f"<ManualClock {self._now:g}, {self.pending} alarms>"

    @property
    def pending(self) -> int:
        """How many alarms are set."""
        return sum(alarm.callback is not None for _, _, alarm in self._alarms)

    def call_at(self, when: float, callback: Callable[[], object]) -> _Alarm:
        """See `Clock.call_at`; one that is due already rings at the next `advance`, also by 0."""
        alarm = self._put(when, callback)
        self._changed.set()
        return alarm

    async def until_pending(self, count: int = 1) -> None:
        """Wait until at least so many alarms are set."""
        while self.pending < count:
            self._changed.clear()
            await self._changed.wait()

    def advance(self, seconds: float) -> None:
        """Move on, ringing what falls due in order of time."""
        self._now += seconds
        while self._alarms and self._alarms[0][0] <= self._now:
            _, _, alarm = heapq.heappop(self._alarms)
            if alarm.callback is not None:
                alarm.callback()


class EagerClock(_SetClock):
    """A clock whose time jumps to whatever is waited for: nothing takes time, and everything happens in its order."""

    def __repr__(self) -> str:
        return f"<EagerClock {self._now:g}>"

    def call_at(self, when: float, callback: Callable[[], object]) -> _Alarm:
        """See `Clock.call_at`; it rings as soon as the event loop comes round."""
        alarm = self._put(when, callback)
        asyncio.get_running_loop().call_soon(self._ring)
        return alarm

    def _ring(self) -> None:
        """Ring the next alarm: one a call, as one call comes for each alarm."""
        when, _, alarm = heapq.heappop(self._alarms)
        if alarm.callback is not None:
            self._now = max(self._now, when)
            alarm.callback()
