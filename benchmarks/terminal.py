"""A terminal that a program is watched on."""

from __future__ import annotations

import asyncio
import os
import pty
import sys
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path


class Terminal:
    """What stands on a terminal, with the moment at which it came."""

    def __init__(self, master: int) -> None:
        self._master = master
        self._seen = b""
        self._came = asyncio.Event()
        self._at = 0.0
        asyncio.get_running_loop().add_reader(master, self._read)

    def _read(self) -> None:
        self._at = time.monotonic()
        try:
            self._seen += os.read(self._master, 65536)
        except OSError:
            return
        self._came.set()

    async def until(self, wanted: bytes) -> float:
        """Wait until this has come behind what was waited for before; gives when."""
        try:
            async with asyncio.timeout(20):
                while wanted not in self._seen:
                    self._came.clear()
                    await self._came.wait()
        except TimeoutError:
            raise TimeoutError(f"{wanted!r} never came; on the terminal stands {self._seen[-2000:]!r}") from None
        self._seen = self._seen.partition(wanted)[2]
        return self._at

    def type(self, text: str) -> None:
        """As if somebody had typed it."""
        os.write(self._master, text.encode())


@asynccontextmanager
async def coven_run(folder: Path, environment: Mapping[str, str]) -> AsyncIterator[tuple[Process, Terminal]]:
    """`coven run` in this folder, on a terminal of its own; it is ended behind it."""
    master, slave = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from coven.cli import main; main()", "run"),
        cwd=folder,
        env=environment,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    try:
        yield process, Terminal(master)
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
        asyncio.get_running_loop().remove_reader(master)
        os.close(master)
