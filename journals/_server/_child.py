"""One run of the `nats-server` program: started, watched, ended."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from journals._server._binary import cannot_run
from journals._server._log_file import LogFile

_READY = b"Server is ready"
# After a failed write the server keeps the stream shut until it is restarted, answers no publisher, and says it here.
_CANNOT_WRITE = b"critical write error"
# The server needs no more than this of our environment; provider keys are none of its business.
_ENVIRONMENT = ("PATH", "HOME", "TZ", "TMPDIR", "SYSTEMROOT", "TEMP", "GOMAXPROCS", "GOMEMLIMIT")


class ServerFailure(msgspec.Struct, frozen=True):
    """How the server ended when nobody asked it to. A negative `exit_code` is the signal that killed it."""

    pid: int
    exit_code: int
    log_tail: tuple[str, ...]
    could_not_write: bool = False
    """It was ended because a write to the disk failed: it answers no publisher any more until it is started anew."""

    def __str__(self) -> str:
        if self.could_not_write:
            how = "was ended because it could not write its store"
        elif self.exit_code < 0:
            how = f"was killed by {signal.Signals(-self.exit_code).name}"
        else:
            how = f"ended by itself with exit code {self.exit_code}"
        last = f"; it last said: {self.reason}" if self.reason else ""
        return f"nats-server (pid {self.pid}) {how}{last}"

    @property
    def reason(self) -> str:
        """The last thing the server complained about, without time and process id; empty when it did not."""
        for line in reversed(self.log_tail):
            for level in ("[FTL] ", "[ERR] ", "panic: ", "fatal error: ", "nats-server: "):
                _, found, said = line.partition(level)
                if found:
                    return said
        return ""


class Child:
    """The process and the thread that reads its log, which is also what notices readiness and death.

    Must be made on the event loop that awaits it. On Linux the server gets SIGTERM when the *thread* that made this
    object ends, which is the kernel's rule: run the loop in a thread that lives as long as the server should.
    """

    def __init__(
        self, binary: Path, config: Path, log: LogFile, lock: int, on_failure: Callable[[ServerFailure], None]
    ) -> None:
        """Start the program. `lock` is a descriptor that it holds open as long as it lives.

        `on_failure` is called on the event loop if it ends before `stop` or `kill` is. Raises `StoreUnavailable` when
        the program cannot be run.
        """
        self._loop = asyncio.get_running_loop()
        self._log, self._on_failure = log, on_failure
        self._unwanted = self._could_not_write = False
        self._ready = asyncio.Event()
        self._ended = asyncio.Event()
        options: dict[str, Any] = {}
        if sys.platform == "win32":
            options["creationflags"] = subprocess.CREATE_NEW_PROCESS_GROUP
        else:
            # A session of its own: Ctrl-C in the terminal is for us, and we stop the server last.
            options["start_new_session"] = True
            options["pass_fds"] = (lock,)
        if sys.platform == "linux":
            options["preexec_fn"] = _die_with_parent()
        try:
            self._process = subprocess.Popen(
                [binary, "-c", config],
                cwd=config.parent,
                env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                **options,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise cannot_run(binary, error) from error
        threading.Thread(target=self._watch, name=f"nats-server {self.pid}", daemon=True).start()

    def __repr__(self) -> str:
        state = "ended" if self._ended.is_set() else "ready" if self._ready.is_set() else "starting"
        return f"<Child pid {self.pid} {state}>"

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self._ended.is_set()

    async def ready(self) -> bool:
        """True once it serves clients, False if it ended before."""
        waits = [asyncio.ensure_future(event.wait()) for event in (self._ready, self._ended)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return not self._ended.is_set()

    def failure(self) -> ServerFailure:
        """How it ended; only once it has."""
        return ServerFailure(self.pid, self._process.wait(), tuple(self._log.tail), self._could_not_write)

    async def stop(self, grace: float) -> None:
        """End it: SIGTERM, and SIGKILL if it has not ended after `grace` seconds, or if we are cancelled."""
        self._unwanted = True
        if self._ended.is_set():
            return
        self._process.terminate()
        try:
            async with asyncio.timeout(grace):
                await self._ended.wait()
        except TimeoutError:
            await self.kill()
        except asyncio.CancelledError:
            await self.kill()
            raise

    async def kill(self) -> None:
        """End it at once; it is gone when this returns."""
        self._unwanted = True
        self._process.kill()
        await self._ended.wait()

    def _watch(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._log.write(line)
            if _READY in line:
                self._tell(self._ready.set)
            if _CANNOT_WRITE in line.lower() and not self._could_not_write:
                self._could_not_write = True
                self._process.terminate()
        self._process.wait()
        self._process.stderr.close()
        self._log.close()
        self._tell(self._on_end)

    def _on_end(self) -> None:
        self._ended.set()
        if not self._unwanted:
            self._on_failure(self.failure())

    def _tell(self, callback: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:  # the loop is closed: nobody waits any more
            return


def _die_with_parent() -> Callable[[], None]:
    """What the new process runs before it becomes the server: ask the kernel for SIGTERM when its parent ends."""
    import ctypes

    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent, set_parent_death_signal = os.getpid(), 1

    def ask() -> None:
        prctl(set_parent_death_signal, signal.SIGTERM)
        if os.getppid() != parent:  # it ended before we asked
            os._exit(1)

    return ask
