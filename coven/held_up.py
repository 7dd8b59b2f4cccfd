"""Code that blocks the event loop, and with it every conversation of the process: found, with the line it stands in."""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from types import FrameType
from typing import Final

from branches.place import place_in, with_callers

EVERY_S: Final = 0.5
LOOKS: Final = 4
_frames: Final = sys._current_frames  # pyright: ignore[reportPrivateUsage] - documented, and the only way


class Watch:
    """Beats of a loop, and looks at them: of so many looks without a beat in between, the last one finds it held up.

    Looks are counted and no time is measured, so a process that was stopped as a whole was not held up.
    """

    def __init__(self, looks: int = LOOKS) -> None:
        self._looks = looks
        self._beats, self._missed = 0, 0
        self._seen: int | None = None

    def __repr__(self) -> str:
        return f"<Watch {self._beats} beats, {self._missed} missed>"

    def beat(self) -> None:
        """The loop goes round."""
        self._beats += 1

    def look(self) -> bool:
        """Whether it is held up; said once for each time that it is."""
        if self._beats != self._seen:
            self._seen, self._missed = self._beats, 0
            return False
        self._missed += 1
        return self._missed == self._looks


@asynccontextmanager
async def watched(say: Callable[[str], None], *, every_s: float = EVERY_S, looks: int = LOOKS) -> AsyncGenerator[None]:
    """While the block runs, `say` is told the place of code that holds up this loop for `looks` times `every_s`.

    It is called from another thread. What Coven and installed packages do by themselves is not told.
    """
    loop, blocked = asyncio.get_running_loop(), threading.get_ident()
    watch, stop = Watch(looks), threading.Event()
    handle: list[asyncio.TimerHandle] = []
    around: set[FrameType] = set()

    def beat() -> None:
        watch.beat()
        around.clear()
        around.update(with_callers(inspect.currentframe()))  # what runs the loop, such as the script of a command
        handle[:] = [loop.call_later(every_s, beat)]

    def look() -> None:
        while not stop.wait(every_s):
            if watch.look() and (place := place_in(_frames().get(blocked), around)) is not None:
                say(place)

    handle.append(loop.call_later(0, beat))
    thread = threading.Thread(target=look, name="coven-held-up", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        handle[0].cancel()
        around.clear()
