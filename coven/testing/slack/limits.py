"""Rate limits as Slack keeps them: so many requests of a kind in a time; who makes more is told how long to wait."""

from __future__ import annotations


class Limits:
    """`busy` has the methods of which the next requests are refused: how many, and the seconds that they are told."""

    def __init__(self) -> None:
        self.busy: dict[str, tuple[int, int]] = {}
        self.refused: list[str] = []

    def __repr__(self) -> str:
        return f"<Limits {self.busy}, {len(self.refused)} refused>"

    def count(self, method: str) -> int | None:
        """One more request: the seconds to wait if it is refused."""
        left, seconds = self.busy.get(method, (0, 0))
        if left == 0:
            return None
        self.busy[method] = (left - 1, seconds)
        self.refused.append(method)
        return seconds
