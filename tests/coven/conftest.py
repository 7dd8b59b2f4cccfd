"""Projects, and the command line in this process or in one of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, Queue
from typing import Any, NamedTuple

import pytest
import structlog

from coven.cli import main
from coven.project import create

TIMEOUT = 60
KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY")


@pytest.fixture(autouse=True)
def logs_to_standard_error() -> Iterator[None]:
    """As `coven run` has them; without it structlog prints to standard output."""
    structlog.configure(logger_factory=lambda *_: structlog.PrintLogger(sys.stderr))
    yield
    structlog.reset_defaults()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new project, which is also the current folder; no keys are set."""
    folder = tmp_path / "hearth"
    create(folder)
    monkeypatch.chdir(folder)
    for name in (*KEYS, "COVEN_FILE", "COVEN_NATS", "COVEN_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    return folder


class Typed:
    """Standard input and output as pipes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._in, self._out = os.pipe(), os.pipe()
        self._streams = {"stdin": os.fdopen(self._in[0]), "stdout": os.fdopen(self._out[1], "w")}
        self._monkeypatch = monkeypatch

    def type(self, text: str) -> None:
        for name, stream in self._streams.items():  # now, since pytest puts its own streams there before each test
            self._monkeypatch.setattr(sys, name, stream)
        os.write(self._in[1], text.encode())

    def end(self) -> None:
        os.close(self._in[1])

    def printed(self) -> str:
        os.set_blocking(self._out[0], False)
        try:
            return os.read(self._out[0], 65536).decode()
        except BlockingIOError:
            return ""


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Typed:
    """Standard input and output of a host in this process."""
    return Typed(monkeypatch)


class Ran(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """Each line of the output as JSON."""
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def coven(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Runs a command in this process."""

    def run(*arguments: object) -> Ran:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["coven", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


class Process:
    """A command in a process of its own; its output is waited for, never slept for."""

    def __init__(self, *arguments: object, stdin: int | None = subprocess.PIPE, **environ: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "coven", *map(str, arguments)],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **environ},
            text=True,
        )
        self._seen: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._lines: dict[str, Queue[str | None]] = {"stdout": Queue(), "stderr": Queue()}
        self._threads = [threading.Thread(target=self._follow, args=(name,), daemon=True) for name in self._lines]
        for thread in self._threads:
            thread.start()

    def _follow(self, name: str) -> None:
        for line in getattr(self.process, name):
            self._seen[name].append(line)
            self._lines[name].put(line)
        self._lines[name].put(None)

    def wait_for(self, text: str, name: str = "stdout") -> str:
        """The next line that holds the text."""
        try:
            while (line := self._lines[name].get(timeout=TIMEOUT)) is not None:
                if text in line:
                    return line
        except Empty:
            pass
        raise AssertionError(f"{text!r} never came; it said {self.out!r} and {self.err!r}")

    def type(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self, *, close: bool = True) -> Ran:
        """Wait for its end, after closing its input."""
        if close and self.process.stdin is not None:
            self.process.stdin.close()
        code = self.process.wait(TIMEOUT)
        for thread in self._threads:
            thread.join(TIMEOUT)
        return Ran(code, self.out, self.err)

    @property
    def out(self) -> str:
        return "".join(self._seen["stdout"])

    @property
    def err(self) -> str:
        return "".join(self._seen["stderr"])


@pytest.fixture
def start() -> Iterator[Callable[..., Process]]:
    """Starts commands; whatever still runs when the test ends is killed."""
    started: list[Process] = []

    def run(*arguments: object, **options: Any) -> Process:
        process = Process(*arguments, **options)
        started.append(process)
        return process

    yield run
    for process in started:
        if process.process.poll() is None:
            process.signal(signal.SIGKILL)
        process.end()
