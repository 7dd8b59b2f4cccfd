"""A clock for cases: real time, of which a part can be skipped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


class _Alarm:
    def __init__(self, clock: PassingClock, when: float, callback: Callable[[], object]) -> None:
        self.when, self._clock, self._callback = when, clock, callback
        self._timer = asyncio.get_running_loop().call_later(max(0.0, when - clock.now()), self.ring)

    def ring(self) -> None:
        self.cancel()
        self._callback()

    def cancel(self) -> None:
        """See `policies.Alarm.cancel`."""
        self._timer.cancel()
        if self in self._clock.alarms:
            self._clock.alarms.remove(self)


class PassingClock:
    """See `policies.Clock`. Nobody need wait: whoever knows that nothing else will happen lets the time pass."""

    def __init__(self) -> None:
        self.alarms: list[_Alarm] = []
        self._skipped = 0.0
        self._set = asyncio.Event()

    def now(self) -> float:
        """See `Clock.now`."""
        return time.time() + self._skipped

    def call_at(self, when: float, callback: Callable[[], object]) -> _Alarm:
        """See `Clock.call_at`."""
        alarm = _Alarm(self, when, callback)
        self.alarms.append(alarm)
        self._set.set()
        return alarm

    def skip(self, seconds: float) -> None:
        """Be so much later, and ring what falls due, in order."""
        self._skipped += seconds
        for alarm in sorted(self.alarms, key=lambda alarm: alarm.when):
            if alarm.when <= self.now():
                alarm.ring()

    async def spend(self, seconds: float) -> None:
        """Take so much time, at once."""
        over = asyncio.Event()
        self.call_at(self.now() + seconds, over.set)
        self.skip(seconds)
        await over.wait()

    async def skip_next(self, within: float) -> None:
        """Wait for an alarm that is set for so many seconds from now or fewer, and be there."""
        while not (due := [alarm.when for alarm in self.alarms if alarm.when - self.now() <= within]):
            self._set.clear()
            await self._set.wait()
        self.skip(max(0.0, min(due) - self.now()))

    async def hang(self) -> None:
        """Never return, and let the time pass until somebody gives up."""
        while True:
            await self.skip_next(float("inf"))
            await asyncio.sleep(0)
