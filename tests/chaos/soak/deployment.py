"""A coven in processes of its own beside a server, all of which can be killed, stood still and started again."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
from itertools import count
from pathlib import Path

from tests.chaos.soak.nursery import Child, Nursery
from tests.chaos.soak.servers import OwnServer, Server, SharedServer
from tests.chaos.soak.setting import Setting
from tests.chaos.soak.wire import Wire

HERE = Path(__file__).parent
SERVICES = ("chat", "agents", "spellcasting", "covenant")
DOOR = "door"
KILLED = -signal.SIGKILL
_ENDS_WITHIN_S = 30.0
_numbers = count(1)


class Running:
    """One process that runs one service."""

    def __init__(self, service: str, number: int, process: Child, log: Path) -> None:
        self.service, self.number, self.process, self.log = service, number, process, log
        self.paused = False

    def __repr__(self) -> str:
        state = "paused" if self.paused else "running" if self.lives else f"ended {self.process.returncode}"
        return f"<{self.service} {self.number} pid {self.process.pid} {state}>"

    @property
    def lives(self) -> bool:
        """Whether it has not ended."""
        return self.process.returncode is None

    @property
    def ended_well(self) -> bool:
        """Whether it has ended as it was asked to; the signal itself ends it where it does not listen yet."""
        return self.process.returncode in (0, -signal.SIGTERM)

    def signal(self, what: signal.Signals) -> None:
        """Send it a signal, if it is there."""
        if self.lives:
            self.process.send_signal(what)

    def pause(self) -> None:
        """Let it stand still, in the middle of whatever it does."""
        self.signal(signal.SIGSTOP)
        self.paused = True

    def go_on(self) -> None:
        """Let it go on where it stood."""
        self.signal(signal.SIGCONT)
        self.paused = False

    async def kill(self) -> None:
        """It is gone when this returns."""
        self.signal(signal.SIGKILL)
        await self.process.wait()


class Deployment:
    """The processes of one coven and their server. `ended` are those that ended though nobody had killed them."""

    def __init__(self, folder: Path, setting: Setting, port: int) -> None:
        """`port` is where the world listens."""
        self._setting = setting
        self.folder, self.name = folder, f"soak{os.getpid()}x{next(_numbers)}"
        self.server: Server = SharedServer(folder) if setting.shared else OwnServer(folder)
        self.running: list[Running] = []
        self.ended: list[Running] = []
        self._world = port
        self.services = (*SERVICES, DOOR) if setting.door else SERVICES
        self.door = free_port()
        self._nursery = Nursery()
        self.wires: dict[str, Wire] = {}
        self._started = count(1)

    def __repr__(self) -> str:
        return f"<Deployment {self.name}: {self.running}>"

    async def open(self) -> None:
        """Make the folder and start the server, and no service yet."""
        (self.folder / "workspace").mkdir(parents=True)
        (self.folder / "logs").mkdir()
        (self.folder / "effects.log").touch()
        shutil.copy(HERE / "outside.py", self.folder)
        text = (HERE / "coven.yaml").read_text()
        text = text.replace("nats: embedded", self.server.nats)
        (self.folder / "coven.yaml").write_text(self._setting.configured(text, self.name))
        await self.server.start()
        await self._nursery.open()
        if self.server.port is not None:
            for service in self.services:
                self.wires[service] = Wire(self.server.port)
                await self.wires[service].open()

    async def close(self) -> None:
        """Kill all that is left."""
        for running in self.running:
            await running.kill()
        for wire in self.wires.values():
            wire.close()
        await self._nursery.close()
        await self.server.stop()

    async def start(self, service: str) -> Running:
        """Start a service, beside those of its kind that run; do not wait until it is ready."""
        number = next(self._started)
        log = self.folder / "logs" / f"{number}-{service}.log"
        process = await self._nursery.start(
            *(("serve", "--port", str(self.door)) if service == DOOR else ("run", "--only", service)),
            folder=self.folder,
            environ=self._environ(service),
            output=Path(os.devnull),
            errors=log,
        )
        running = Running(service, number, process, log)
        self.running.append(running)
        return running

    async def command(self, *arguments: str) -> tuple[int, str, str]:
        """Run another command of the coven; gives its exit code, its output and its errors."""
        output, errors = (self.folder / "logs" / f"{next(self._started)}-{name}" for name in ("output", "errors"))
        process = await self._nursery.start(
            *arguments,
            folder=self.folder,
            environ=self._environ(),
            output=output,
            errors=errors,
        )
        async with asyncio.timeout(_ENDS_WITHIN_S):
            code = await process.wait()
        return code, output.read_text(), errors.read_text()

    def of(self, service: str) -> list[Running]:
        """The processes of this kind that live, oldest first."""
        return [running for running in self.running if running.service == service and running.lives]

    async def kill(self, running: Running) -> None:
        """Kill a process, which is then forgotten."""
        await running.kill()
        self.running.remove(running)

    def look(self) -> list[Running]:
        """Those that have ended by themselves since the last look."""
        found = [running for running in self.running if not running.lives]
        for running in found:
            self.running.remove(running)
        self.ended += found
        return found

    async def stop(self) -> list[Running]:
        """Stop all services in order; gives those that did not end well."""
        for running in self.running:
            running.signal(signal.SIGTERM)
        async with asyncio.timeout(_ENDS_WITHIN_S):
            for running in self.running:
                await running.process.wait()
        bad = [running for running in self.running if not running.ended_well]
        self.running.clear()
        return bad

    def _environ(self, service: str | None = None) -> dict[str, str]:
        environ = {**os.environ, **self.server.environ, "SOAK_WORLD": str(self._world)}
        if service in self.wires:
            environ["SOAK_NATS"] = f"nats://127.0.0.1:{self.wires[service].port}"
        return environ


def free_port() -> int:
    """A port of this machine that nobody has."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]
