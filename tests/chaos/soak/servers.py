"""The NATS server of a coven under load: one of its own, or the embedded one that its services share."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Protocol

from journals import EmbeddedServer, JetStreamStore, StoreUnavailable, find_server
from journals._server._address import read_address

_LOOK_AGAIN_S = 0.1


class Server(Protocol):
    """What can be done to a server. `nats` is what `coven.yaml` says of it, `environ` what that needs."""

    nats: str

    @property
    def environ(self) -> dict[str, str]: ...

    @property
    def port(self) -> int | None:
        """Where it listens, if services reach it by a wire."""
        ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def connect(self, coven: str) -> JetStreamStore:
        """A connection of our own, as soon as it is there."""
        ...

    async def kill(self) -> None:
        """Kill it; it comes back on its port."""
        ...

    def pause(self) -> None:
        """Let it stand still."""
        ...

    def go_on(self) -> None:
        """Let it go on where it stood."""
        ...


class OwnServer:
    """A server beside the services, which outlives them. Each reaches it by a wire."""

    nats = 'nats: {url: "${SOAK_NATS}", token: "${SOAK_TOKEN}"}'

    def __init__(self, folder: Path) -> None:
        self._server = EmbeddedServer(folder / "server", durability="process")

    def __repr__(self) -> str:
        return f"<OwnServer {self._server!r}>"

    @property
    def environ(self) -> dict[str, str]:
        return {"SOAK_NATS": self._server.url, "SOAK_TOKEN": self._server.token}

    @property
    def port(self) -> int | None:
        return self._server.address.port

    async def start(self) -> None:
        await self._server.start()

    async def stop(self) -> None:
        self.go_on()
        await self._server.stop()

    async def connect(self, coven: str) -> JetStreamStore:
        return await JetStreamStore.connect(self._server.url, coven, token=self._server.token)

    async def kill(self) -> None:
        os.kill(self._server.pid, signal.SIGKILL)
        await self._server.wait_failed()
        await self._server.restart()

    def pause(self) -> None:
        os.kill(self._server.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self._server.pid, signal.SIGCONT)


class SharedServer:
    """The embedded server: the first service starts it, and another one takes it over when that one goes."""

    nats = "nats: embedded\ndurability: process"
    port = None
    environ: dict[str, str] = {}

    def __init__(self, folder: Path) -> None:
        self._folder = folder / ".coven"

    def __repr__(self) -> str:
        return f"<SharedServer of {self._folder}>"

    async def start(self) -> None:
        """The services do."""

    async def stop(self) -> None:
        self._signal(signal.SIGKILL)

    async def connect(self, coven: str) -> JetStreamStore:
        while True:
            address = await find_server(self._folder)
            if address is not None:
                try:
                    return await JetStreamStore.connect(address.url, coven, token=address.token)
                except StoreUnavailable:
                    pass  # it has gone in this very moment
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, what: signal.Signals) -> None:
        """Send it a signal, if that process is there and still is a server."""
        address = read_address(self._folder)
        try:
            if address is not None and b"nats-server" in Path(f"/proc/{address.pid}/cmdline").read_bytes():
                os.kill(address.pid, what)
        except (FileNotFoundError, ProcessLookupError):
            pass
