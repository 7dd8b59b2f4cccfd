"""When a failed service is tried again, and when it is given up: pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """Exponential waiting, in seconds, with a limit: more than `limit` failures within `window` are too many."""

    first: float = 0.2
    factor: float = 2.0
    longest: float = 15.0
    limit: int = 5
    window: float = 60.0

    def recent(self, failures: Sequence[float], now: float) -> tuple[float, ...]:
        """The failures, given as times, that still count."""
        return tuple(failure for failure in failures if now - failure < self.window)

    def delay(self, failures: Sequence[float], now: float) -> float | None:
        """How long to wait after the last of these failures; None when it is time to give up."""
        count = len(self.recent(failures, now))
        if count > self.limit:
            return None
        return min(self.first * self.factor ** max(count - 1, 0), self.longest)
