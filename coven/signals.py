"""Ctrl-C and its kin: the first one stops everything in order, a second one stops at once."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from types import FrameType

from coven.exits import AT_ONCE
from coven.terminal import tell

STOP_WITHIN_S = 4.5
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class StopSignals:
    """Cancels a task at the first signal, and ends the process at the second, or when stopping takes too long.

    Ending at once loses nothing that is acknowledged: whatever was under way is gone on with at the next start.
    """

    def __init__(self, task: asyncio.Task[object], *, within: float = STOP_WITHIN_S) -> None:
        self._task, self._within = task, within
        self._loop = asyncio.get_running_loop()
        self.asked = self._stopping = False

    def __repr__(self) -> str:
        return f"<StopSignals {'asked to stop' if self.asked else 'waiting'}>"

    def __enter__(self) -> StopSignals:
        for number in _SIGNALS:
            try:
                self._loop.add_signal_handler(number, self._signalled, number)
            except NotImplementedError:  # Windows
                signal.signal(number, self._signalled_elsewhere)
        return self

    def __exit__(self, *_: object) -> None:
        for number in _SIGNALS:
            with suppress(NotImplementedError):
                self._loop.remove_signal_handler(number)

    def stop(self) -> None:
        """Begin to stop, as the first signal does."""
        if not self.asked:
            self._signalled(signal.SIGTERM)

    def stopping(self) -> None:
        """Stopping has begun without a signal, as by a Ctrl-C that a prompt has read: an interrupt is a second one."""
        self._stopping = True

    def _signalled(self, number: int) -> None:
        if self.asked or (self._stopping and number == signal.SIGINT):
            end_now("stopped at once; what was under way goes on at the next start")
        self.asked = True
        self._loop.call_later(self._within, end_now, f"stopping took longer than {self._within:g} s; stopped at once")
        if not self._stopping:
            self._task.cancel()

    def _signalled_elsewhere(self, number: int, frame: FrameType | None) -> None:
        self._loop.call_soon_threadsafe(self._signalled, number)


def end_now(reason: str) -> None:
    """End the process without any more ado."""
    tell(f"coven: {reason}")
    os._exit(AT_ONCE)
