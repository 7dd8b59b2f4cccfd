"""QuickJS as a WebAssembly module: compiled once a process, and linked to host functions of our own.

The module comes in the wheel `quickjs-rs`. Of that wheel only the module is used: its own host hands the guest this
process's standard output, clock and entropy, has no hold on a loop inside a built-in, and counts the time a gate takes.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import wasmtime

from leaves.mediums.quickjs import foreign

TICK_S = 0.1
"""How often a guest that does not come back is looked at."""
_STACK = 2 * 1024 * 1024
_BAD_DESCRIPTOR = 8


class _Current(threading.local):
    guest: Any = None


current = _Current()
"""The guest that runs on this thread: the host functions are shared by all guests and ask here whom they serve."""


class Machine:
    """The compiled module and its linker, shared by all guests of a process."""

    def __init__(self) -> None:
        config = wasmtime.Config()
        config.epoch_interruption = True
        config.max_wasm_stack = _STACK
        self.engine = wasmtime.Engine(config)
        code = (files("quickjs_rs") / "_guest.wasm").read_bytes()
        self.build = hashlib.sha256(code).digest()
        self.version = f"quickjs-rs {version('quickjs-rs')}"
        self.module = wasmtime.Module(self.engine, code)
        self.linker = wasmtime.Linker(self.engine)
        self._kept: list[Any] = []
        for module, name, parameters, results, function in _IMPORTS:
            callback = foreign.callback(parameters, results, function, _failed)
            self._kept.append(callback)
            foreign.define(self.linker, module, name, parameters, results, callback)
        self._lock, self._running, self._wake = threading.Lock(), 0, threading.Event()
        self._ticker: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"<Machine {self.version} running={self._running}>"

    def enter(self) -> None:
        """A guest begins to run: from now on it is looked at every `TICK_S`."""
        with self._lock:
            self._running += 1
            self._wake.set()
            if self._ticker is None:
                self._ticker = threading.Thread(target=self._tick, name="coven-quickjs-ticker", daemon=True)
                self._ticker.start()

    def leave(self) -> None:
        """A guest is back."""
        with self._lock:
            self._running -= 1
            if self._running == 0:
                self._wake.clear()

    def _tick(self) -> None:
        pause = threading.Event()
        while self._wake.wait():
            pause.wait(TICK_S)
            self.engine.increment_epoch()


def _failed(error: BaseException) -> None:
    current.guest.failed(error)


def _call(*values: int) -> int:
    return current.guest.entered(*values)


def _interrupt() -> int:
    return current.guest.interrupted()


def _clock(_clock_id: int, _precision: int, out: int) -> int:
    guest = current.guest
    guest.poke(out, int(guest.now() * 1e9).to_bytes(8, "little"))
    return 0


def _random(at: int, length: int) -> int:
    current.guest.poke(at, bytes(length))  # the engine seeds itself with it; `Math.random` is the bootstrap's
    return 0


def _no_environment(count: int, size: int) -> int:
    current.guest.poke(count, bytes(4))
    current.guest.poke(size, bytes(4))
    return 0


def _refuse(*_: int) -> int:
    return _BAD_DESCRIPTOR


def _nothing(*_: int) -> int:
    return 0


def _exit(_code: int) -> None:
    raise RuntimeError("the guest asked to exit")


_IMPORTS: tuple[tuple[str, str, str, str, Callable[..., int | None]], ...] = (
    ("env", "host_call", "iiiii", "i", _call),
    ("env", "host_interrupt", "", "i", _interrupt),
    ("env", "host_module_normalize", "iiiii", "i", _nothing),
    ("env", "host_module_load", "iii", "i", _nothing),
    ("wasi_snapshot_preview1", "random_get", "ii", "i", _random),
    ("wasi_snapshot_preview1", "clock_time_get", "ili", "i", _clock),
    ("wasi_snapshot_preview1", "environ_get", "ii", "i", _nothing),
    ("wasi_snapshot_preview1", "environ_sizes_get", "ii", "i", _no_environment),
    ("wasi_snapshot_preview1", "fd_close", "i", "i", _refuse),
    ("wasi_snapshot_preview1", "fd_fdstat_get", "ii", "i", _refuse),
    ("wasi_snapshot_preview1", "fd_seek", "ilii", "i", _refuse),
    ("wasi_snapshot_preview1", "fd_write", "iiii", "i", _refuse),
    ("wasi_snapshot_preview1", "proc_exit", "i", "", _exit),
)
