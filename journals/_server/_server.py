"""The embedded server: started with the coven, restarted when it dies, stopped last."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import time
from pathlib import Path
from typing import Literal, Self

from journals._errors import StoreUnavailable
from journals._server._address import Durability, ServerAddress, read_address, write_address
from journals._server._binary import binary_version, find_binary
from journals._server._child import Child, ServerFailure
from journals._server._config import RESERVE_BYTES, STORE_FOLDER, file_limit, render_config
from journals._server._files import check_writable, explain, write_private
from journals._server._folder import CONFIG_FILE, FolderLock, take_folder
from journals._server._info import ServerInfo, read_info
from journals._server._log_file import LogFile
from journals._server._ports import PortTaken, choose_port
from journals._server._store_version import check_version, record_version, written_by

LOG_FILE = "nats.log"
_NOT_STARTED = "the embedded server is not started; use it as `async with EmbeddedServer(…)`"

State = Literal["stopped", "starting", "running", "failed"]


class EmbeddedServer:
    """A real `nats-server` with JetStream as a child process, its store under `<folder>/nats`.

        async with EmbeddedServer(Path(".coven")) as server:
            store = await JetStreamStore.connect(server.url, token=server.token, coven="hearth")

    It listens on loopback only and lets in who knows the token. It never outlives this process: on Linux the kernel
    ends it with the thread that started it, elsewhere the next start ends what was left. `wait_failed` tells of its
    death, `restart` brings it back on the same port with the same token, so that clients reconnect by themselves.
    """

    def __init__(
        self,
        folder: Path,
        durability: Durability = "power",
        *,
        binary: Path | None = None,
        start_timeout: float = 60.0,
        stop_timeout: float = 5.0,
        reserve_bytes: int = RESERVE_BYTES,
    ) -> None:
        """Nothing is started yet. `binary` is another `nats-server` than the installed one; times are in seconds.

        The store leaves `reserve_bytes` of the disk free: at that point appends are refused with `StoreFull`.
        """
        self.folder = Path(folder).absolute()
        self.durability: Durability = durability
        self.log_path = self.folder / LOG_FILE
        self._binary, self._reserve_bytes = binary, reserve_bytes
        self._start_timeout, self._stop_timeout = start_timeout, stop_timeout
        self._state: State = "stopped"
        self._changing = asyncio.Lock()
        self._lock: FolderLock | None = None
        self._child: Child | None = None
        self._address: ServerAddress | None = None
        self._failed = asyncio.Event()
        self._failure: ServerFailure | None = None

    def __repr__(self) -> str:
        where = f" {self._address.url} pid {self._address.pid}" if self._address and self._state == "running" else ""
        return f"<EmbeddedServer {self._state}{where}, {self.durability}, {self.folder}>"

    @property
    def state(self) -> State:
        """`stopped`, `starting`, `running` or `failed` (it died, or did not come back from a restart)."""
        return self._state

    @property
    def address(self) -> ServerAddress:
        """Everything needed to connect, also after the server died. Raises `StoreUnavailable` before the start."""
        if self._address is None:
            raise StoreUnavailable(_NOT_STARTED)
        return self._address

    @property
    def url(self) -> str:
        """Where it listens: `nats://127.0.0.1:<port>`."""
        return self.address.url

    @property
    def token(self) -> str:
        """What a client has to show. Never print it."""
        return self.address.token

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self.address.pid

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Own the folder and start the server; it serves when this returns.

        It takes the former port and token if that port is free, else new ones. Raises `FolderTaken`,
        `StoreUnavailable`, `StoreMismatch`, `StoreFull` or `StoreRefused`, with what to do in the message.
        """
        async with self._changing:
            if self._lock is not None:
                return
            lock = await take_folder(self.folder, self._stop_timeout)
            self._state = "starting"
            try:
                await self._start(lock)
            except BaseException:
                lock.release()
                self._state = "stopped"
                raise
            self._lock = lock

    async def stop(self) -> None:
        """Stop the server and give the folder up. Stopping twice does nothing."""
        async with self._changing:
            if self._lock is None:
                return
            try:
                await self._end_child()
            finally:
                self._lock.release()
                self._lock = None
                self._state = "stopped"
                self._failed.clear()

    async def restart(self) -> None:
        """Start it again, on the same port with the same token; end it first if it still runs.

        Raises what `start` raises; `StoreUnavailable` if its port was taken meanwhile. It may be tried again.
        """
        async with self._changing:
            if self._lock is None:
                raise StoreUnavailable(_NOT_STARTED)
            await self._end_child()
            self._state = "starting"
            try:
                await self._run(self._lock, self.address.port, self.address.token)
            except BaseException:
                self._state = "failed"
                raise

    async def wait_failed(self) -> ServerFailure:
        """Waits until the server dies though nobody stopped it, and tells how. Call it again after a restart."""
        await self._failed.wait()
        assert self._failure is not None
        return self._failure

    async def _start(self, lock: FolderLock) -> None:
        former = read_address(self.folder)
        port = choose_port(former.port if former else None)
        # Whoever sits on the former port may have been shown the token by a client that came back.
        token = former.token if former and former.port == port else secrets.token_hex(24)
        try:
            await self._run(lock, port, token)
        except PortTaken:  # in the moment since it was free
            await self._run(lock, choose_port(), secrets.token_hex(24))

    async def _run(self, lock: FolderLock, port: int, token: str) -> None:
        """One run of the program, up to the moment that others can find it."""
        binary = self._binary or find_binary()
        try:
            if stored := written_by(self.folder):
                check_version(self.folder, stored, await asyncio.to_thread(binary_version, binary))
            check_writable(self.folder / STORE_FOLDER)
            limit = file_limit(self.folder, self._reserve_bytes)
            config = render_config(port=port, token=token, durability=self.durability, max_file_bytes=limit)
            write_private(self.folder / CONFIG_FILE, config.encode())
            child = Child(binary, self.folder / CONFIG_FILE, LogFile(self.log_path), lock.descriptor, self._on_failure)
            try:
                info = await self._wait_ready(child, port)
                check_version(self.folder, stored, info.version)
                if info.version != stored:
                    record_version(self.folder, info.version)
                self._address = ServerAddress(
                    url=f"nats://127.0.0.1:{port}",
                    token=token,
                    pid=child.pid,
                    owner=os.getpid(),
                    server_id=info.server_id,
                    version=info.version,
                    durability=self.durability,
                    started=time.time(),
                )
                write_address(self.folder, self._address)
            except BaseException:
                await child.kill()  # it holds the lock as well
                raise
        except OSError as error:
            raise explain(error, self.folder) from error
        self._child, self._state = child, "running"
        self._failed.clear()
        if child.has_ended:
            self._on_failure(child.failure())

    async def _wait_ready(self, child: Child, port: int) -> ServerInfo:
        try:
            async with asyncio.timeout(self._start_timeout):
                ready = await child.ready()
        except TimeoutError:
            raise StoreUnavailable(
                f"nats-server did not become ready within {self._start_timeout:g} s; {self.log_path} tells what it does"
            ) from None
        if ready:
            return await read_info(f"nats://127.0.0.1:{port}")
        failure = child.failure()
        if "address already in use" in failure.reason:
            raise PortTaken(port)
        if "no space left" in failure.reason:
            raise explain(OSError(errno.ENOSPC, "no space left"), self.folder)
        raise StoreUnavailable(f"{failure}; see {self.log_path}")

    async def _end_child(self) -> None:
        if self._child is not None:
            await self._child.stop(self._stop_timeout)

    def _on_failure(self, failure: ServerFailure) -> None:
        """Called on the event loop. A failure while starting is reported by the start itself."""
        if self._state == "running":
            self._state, self._failure = "failed", failure
            self._failed.set()
