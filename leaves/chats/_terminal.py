"""Reading and writing of standard streams without blocking the event loop, and without keeping the process alive."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import unicodedata
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from typing import TypeVar

_CHUNK = 65536

T = TypeVar("T")


class LineReader:
    """The lines of a file descriptor, read only when asked for; bytes that are no UTF-8 become U+FFFD.

    A reader that is cancelled goes on where it was: nothing that arrived meanwhile is lost. It reads a descriptor of
    its own, so that a thread that still waits never reads from what got the old number.
    """

    def __init__(self, fd: int) -> None:
        self._fd = os.dup(fd)
        weakref.finalize(self, os.close, self._fd)  # a waiting thread keeps the reader, and so the descriptor
        self._lines: deque[bytes] = deque()
        self._rest = bytearray()
        self._reading: asyncio.Future[bytes] | None = None
        self._ended = False

    def __repr__(self) -> str:
        return f"<LineReader fd={self._fd} {'at the end' if self._ended else 'open'}>"

    async def line(self) -> str | None:
        """The next line without its end; None at the end of the input."""
        while not self._lines:
            if self._ended:
                return None
            if self._reading is None:
                self._reading = start(lambda: os.read(self._fd, _CHUNK))
            chunk = await asyncio.shield(self._reading)
            self._reading = None
            self._take(chunk)
        return self._lines.popleft().decode("utf-8", "replace").removesuffix("\r")

    def _take(self, chunk: bytes) -> None:
        first, *others = chunk.split(b"\n")
        self._rest += first
        for part in others:
            self._lines.append(bytes(self._rest))
            self._rest[:] = part
        if not chunk:
            self._ended = True
            if self._rest:
                self._lines.append(bytes(self._rest))


async def write(fd: int, body: bytes) -> None:
    """Write all of it. Raises `OSError`, e.g. `BrokenPipeError` when nobody reads any more."""

    own = os.dup(fd)  # the thread may still be writing when the stream was closed and its number given away

    def write_all() -> None:
        rest = body
        try:
            while rest:
                rest = rest[os.write(own, rest) :]
        finally:
            os.close(own)

    await start(write_all)


def start(work: Callable[[], T]) -> asyncio.Future[T]:
    """Do something that may block for ever, such as reading a terminal, in a thread that nothing waits for.

    The default executor would do, but its threads are joined before the process may end.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def succeed(result: T) -> None:
        if not outcome.done():
            outcome.set_result(result)

    def fail(error: OSError) -> None:
        if not outcome.done():
            outcome.set_exception(error)

    def run() -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed while we were blocked: nobody waits any more
            try:
                result = work()
            except OSError as error:
                loop.call_soon_threadsafe(fail, error)
            else:
                loop.call_soon_threadsafe(succeed, result)

    threading.Thread(target=run, name="console", daemon=True).start()
    return outcome


def visible(text: str) -> str:
    """The text without control characters (line breaks and tabs stay), so that no answer can drive the terminal."""
    return "".join(c for c in text if c in "\n\t\u200d" or unicodedata.category(c) not in ("Cc", "Cf"))


def colours(environ: Mapping[str, str]) -> bool:
    """Whether a terminal gets any style: not with `NO_COLOR`, nor where it can do none."""
    return not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
