"""How many turns are at work at one time, so that the event loop gets its turn among them."""

from __future__ import annotations

import os
import threading
import time

_PLACES = threading.BoundedSemaphore(max(4, os.cpu_count() or 1))
_BRIEF_S = 0.05


def admit() -> None:
    """Wait for a place, for a turn whose thread is about to start: its `Pace` begins with it."""
    _PLACES.acquire()


class Pace:
    """One turn's place among those at work. It is given up while a gate is out, and for good by code that runs long:

    that is in the engine and holds no lock of the interpreter, and whoever is stuck shall keep nobody waiting.
    """

    def __init__(self) -> None:
        self._until: float | None = None

    def __repr__(self) -> str:
        return f"<Pace {'at work' if self._until is not None else 'without a place'}>"

    def begin(self) -> None:
        """The turn was admitted; this is its thread."""
        self._until = time.thread_time() + _BRIEF_S

    def take(self) -> None:
        """Wait for a place."""
        if self._until is None:
            admit()
            self.begin()

    def give(self) -> None:
        """Give the place up, if there is one."""
        if self._until is not None:
            self._until = None
            _PLACES.release()

    def check(self) -> None:
        """Give the place up if it was held long enough."""
        if self._until is not None and time.thread_time() > self._until:
            self.give()
