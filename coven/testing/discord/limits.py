"""Rate limits as Discord keeps them: a number of requests in a time, for each kind of request in each channel."""

from __future__ import annotations

import time

GLOBAL = "global"


class Limits:
    """Counts requests. `rules` has the kinds that are limited: how many in how many seconds.

    A rule for `global` is for all of them together, in all channels.
    """

    def __init__(self) -> None:
        self.rules: dict[str, tuple[int, float]] = {}
        self.refused = 0
        self._windows: dict[tuple[str, str], tuple[float, int]] = {}

    def __repr__(self) -> str:
        return f"<Limits {self.rules}, {self.refused} refused>"

    def count(self, kind: str, place: str) -> tuple[dict[str, str], float | None]:
        """One more request: the headers that tell how it stands, and the seconds to wait if it was one too many."""
        if kind not in self.rules:
            return {}, None
        many, seconds = self.rules[kind]
        now = time.monotonic()
        began, used = self._windows.get((kind, place), (now, 0))
        if now - began >= seconds:
            began, used = now, 0
        left = began + seconds - now
        self._windows[kind, place] = (began, used + 1)
        headers = {
            "X-RateLimit-Limit": str(many),
            "X-RateLimit-Remaining": str(max(0, many - used - 1)),
            "X-RateLimit-Reset": str(time.time() + left),
            "X-RateLimit-Reset-After": f"{left:.3f}",
            "X-RateLimit-Bucket": kind,
        }
        if used < many:
            return headers, None
        self.refused += 1
        return headers, left
