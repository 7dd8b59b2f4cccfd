"""What Python code asks an operating system for, answered from the seed of its turn."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any, cast

from branches.agents.medium import Seed


class Clock:
    """Time and chance of one turn. Sleeping moves the clock on and waits for nothing."""

    def __init__(self, seed: Seed) -> None:
        self._now = seed.now
        self._random = random.Random(seed.random)

    def __repr__(self) -> str:
        return f"<Clock {self._now}>"

    def advance(self, now: float | None) -> None:
        """The time of a gate's reply."""
        if now is not None:
            self._now = max(self._now, now)

    def answer(self, function: str, arguments: Sequence[Any]) -> dict[str, Any] | None:
        """What the code gets for a call of the operating system; None if there is no such thing here."""
        match function:
            case "time.time":
                value: Any = self._now
            case "datetime.now":
                value = self._datetime(cast("tzinfo | None", arguments[0] if arguments else None))
            case "date.today":
                value = self._datetime(None).date()
            case "time.sleep" | "asyncio.sleep":
                self._now += max(0.0, float(arguments[0]))
                value = None
            case "os.urandom":
                value = self._random.randbytes(int(arguments[0]))
            case _:
                return None
        return {"return_value": value}

    def _datetime(self, zone: tzinfo | None) -> datetime:
        here = datetime.fromtimestamp(self._now, zone or UTC)
        return here if zone is not None else here.replace(tzinfo=None)
