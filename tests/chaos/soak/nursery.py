"""Processes that begin where everything is imported already: half a second of computing less for each.

Run as a program it is the parent of them all: it reads what to start from standard input, a line of JSON each, forks,
and tells on standard output who was born and who has ended.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

import msgspec

_PRELOADED = (
    "branches.agents.service",
    "branches.chat.service",
    "branches.spellcasting.service",
    "coven.cli.doctor",
    "coven.cli.journal",
    "coven.cli.run",
    "coven.running",
    "coven.shelf",
    "covenants.router",
    "leaves.spells.fs",
    "nats",
)


class Child:
    """One process of a nursery."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.ended = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Child pid {self.pid} {'running' if self.returncode is None else f'ended {self.returncode}'}>"

    def send_signal(self, what: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.pid, what)

    async def wait(self) -> int:
        """Its exit code, once it has ended."""
        await self.ended.wait()
        assert self.returncode is not None
        return self.returncode


class Nursery:
    """Starts `coven` commands, one after the other."""

    def __init__(self) -> None:
        self._children: dict[int, Child] = {}
        self._starting = asyncio.Lock()
        self._born: asyncio.Queue[int] = asyncio.Queue()
        self._process: asyncio.subprocess.Process | None = None
        self._hearing: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Nursery of {list(self._children.values())}>"

    async def open(self) -> None:
        """Start the parent of all."""
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, __file__),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        self._hearing = asyncio.create_task(self._hear())

    async def close(self) -> None:
        """End the parent; its children should have ended."""
        if self._process is not None and self._hearing is not None:
            self._process.kill()
            await self._process.wait()
            await self._hearing

    async def start(self, *arguments: str, folder: Path, environ: dict[str, str], output: Path, errors: Path) -> Child:
        """Start `coven` with these arguments there, what it says in these files, and nothing to read."""
        assert self._process is not None
        assert self._process.stdin is not None
        streams = {"output": str(output), "errors": str(errors)}
        wanted = {"arguments": arguments, "folder": str(folder), "environ": environ, **streams}
        async with self._starting:
            self._process.stdin.write(msgspec.json.encode(wanted) + b"\n")
            return self._children[await self._born.get()]

    async def _hear(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            told: dict[str, int] = msgspec.json.decode(line)
            if "code" not in told:
                self._children[told["pid"]] = Child(told["pid"])
                self._born.put_nowait(told["pid"])
            else:
                child = self._children.pop(told["pid"])
                child.returncode = told["code"]
                child.ended.set()


def main() -> None:
    """The parent: forks and waits, and does nothing else, so that what is forked is as good as new."""
    for module in _PRELOADED:
        __import__(module)
    reading, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready, _, _ = select.select([0, reading], [], [])
        if reading in ready:
            os.read(reading, 4096)
        while (ended := _reap()) is not None:
            _tell({"pid": ended[0], "code": ended[1]})
        if 0 in ready:
            line = _read_line()
            if not line:  # whoever wanted them has ended, and nobody else would end them
                os.killpg(0, signal.SIGKILL)
            _bear(msgspec.json.decode(line))


def _reap() -> tuple[int, int] | None:
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, os.waitstatus_to_exitcode(status)) if pid else None


def _read_line() -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            return b""
        line += byte
    return line


def _tell(what: dict[str, int]) -> None:
    os.write(1, msgspec.json.encode(what) + b"\n")


def _bear(wanted: dict[str, Any]) -> None:
    pid = os.fork()
    if pid:
        _tell({"pid": pid})
        return
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, name in enumerate((os.devnull, wanted["output"], wanted["errors"])):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND), number)
    os.closerange(3, 64)
    os.chdir(wanted["folder"])
    os.environ.clear()
    os.environ.update(wanted["environ"])
    sys.argv = ["coven", *wanted["arguments"]]
    from coven.cli import main as coven

    code = 1
    try:
        coven()
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 0 if leaving.code is None else 1
    except BaseException:  # noqa: BLE001 - the end of this process, which must not go on as its parent
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
