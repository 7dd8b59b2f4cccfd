"""A log whose answers get lost, as they do when a server or a process dies at the wrong moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from journals import Journal, Unacknowledged
from journals._log import Fence, Log, Message


class Crash(Exception):
    """The process that writes dies here."""


class FlakyLog:
    """Passes everything on, and fails where `plan(operation number)` says `before` or `after` the write."""

    def __init__(self, log: Log, plan: Callable[[int], str | None], error: type[Exception] = Unacknowledged) -> None:
        self._log, self._plan, self._error = log, plan, error
        self.operations = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def append(self, message: Message, fence: Fence | None = None) -> int:
        return await self._flaky(lambda: self._log.append(message, fence))

    async def append_all(self, messages: Sequence[Message], fence: Fence | None = None) -> int:
        return await self._flaky(lambda: self._log.append_all(messages, fence))

    async def _flaky(self, write: Callable[[], Any]) -> int:
        self.operations += 1
        when = self._plan(self.operations)
        if when == "before":
            raise self._error("lost on the way there")
        position = await write()
        if when == "after":
            raise self._error("lost on the way back")
        return position


def flaky(
    journal: Journal, plan: Callable[[int], str | None], error: type[Exception] = Unacknowledged, **options: float
) -> Journal:
    """The same journal over a log that fails by plan."""
    return Journal(FlakyLog(journal.log, plan, error), journal.registry, **options)  # type: ignore[arg-type]
