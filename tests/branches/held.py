"""A log whose writes of some messages wait until the test lets them through, or makes them fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from journals import Journal
from journals._log import Fence, Message


class HeldLog:
    """Everything else passes. `arrived` says that a write is held; once `released`, it succeeds or raises `error`."""

    def __init__(self, log: Any, holds: Callable[[Message], bool]) -> None:
        self._log, self._holds = log, holds
        self.arrived, self.released = asyncio.Event(), asyncio.Event()
        self.error: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def append(self, message: Message, fence: Fence | None = None) -> int:
        if self._holds(message):
            self.arrived.set()
            await self.released.wait()
            if self.error is not None:
                raise self.error
        return await self._log.append(message, fence)


def held(journal: Journal, holds: Callable[[Message], bool]) -> tuple[Journal, HeldLog]:
    """The journal over a log that holds such messages."""
    log = HeldLog(journal.log, holds)
    return Journal(log, journal.registry), log  # type: ignore[arg-type]
