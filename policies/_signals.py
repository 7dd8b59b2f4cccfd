"""What was told to a run from outside, and who waits for it."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque

from policies._codec import Signalled

Bell = asyncio.Future[Signalled | None]
"""Rung with a signal, or with None by an alarm."""


class Signals:
    """Signals by name. Each answers one waiting, in the order of the journal; the first who waits gets the oldest."""

    def __init__(self) -> None:
        self._known: dict[str, Signalled] = {}
        self._free: defaultdict[str, deque[Signalled]] = defaultdict(deque)
        self._waiting: defaultdict[str, deque[Bell]] = defaultdict(deque)

    def __repr__(self) -> str:
        return f"<Signals {sum(map(len, self._free.values()))} of {len(self._known)} not taken>"

    def arrived(self, signal: Signalled) -> None:
        """A signal stands in the journal."""
        if signal.id not in self._known:
            self._known[signal.id] = signal
            self._free[signal.name].append(signal)
            self._hand_out(signal.name)

    def taken(self, id: str) -> Signalled:
        """The journal says that this signal has answered a call."""
        signal = self._known[id]
        if signal in self._free[signal.name]:
            self._free[signal.name].remove(signal)
        return signal

    def take(self, name: str) -> Signalled | None:
        """The oldest signal of this name that nobody took, if there is one."""
        free = self._free[name]
        return free.popleft() if free else None

    async def wait(self, name: str, bell: Bell) -> Signalled | None:
        """Wait until there is a signal of this name for us, or somebody rings the bell without one."""
        self._waiting[name].append(bell)
        self._hand_out(name)
        try:
            return await bell
        except asyncio.CancelledError:
            signal = bell.result() if bell.done() and not bell.cancelled() else None
            if signal is not None:  # it came when we were leaving already: it is the next one's
                self._free[name].appendleft(signal)
                self._hand_out(name)
            raise
        finally:
            if bell in self._waiting[name]:
                self._waiting[name].remove(bell)

    def fail(self, error: BaseException) -> None:
        """Let everybody who waits raise this."""
        for waiting in self._waiting.values():
            for bell in waiting:
                if not bell.done():
                    bell.set_exception(error)

    def _hand_out(self, name: str) -> None:
        free, waiting = self._free[name], self._waiting[name]
        while free and waiting:
            bell = waiting.popleft()
            if not bell.done():
                bell.set_result(free.popleft())
