"""The way to the journals: the server that runs, is joined or is started, and the connection to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from enum import Enum, auto
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import structlog

from coven.backoff import Backoff
from coven.clock import Clock, SystemClock
from covenants import Config
from journals import (
    EmbeddedServer,
    FolderTaken,
    JetStreamStore,
    JournalError,
    ServerAddress,
    ServerFailure,
    StoreUnavailable,
    find_server,
)

FOLDER = ".coven"
_LOOK_AGAIN_S = 0.1
_JOIN_TIMEOUT_S = 10.0
_LEAVE_TIMEOUT_S = 1.0  # a coven that is just stopping, or a command that is just looking
_log: Any = structlog.get_logger("coven.host")


class Join(Enum):
    """What to do about an embedded server that another process has started."""

    NEVER = auto()
    """Refuse: a whole coven runs once."""
    ALLOWED = auto()
    """Share it; whoever comes first starts it."""
    RUNNING = auto()
    """Share one that runs, and refuse where there is none."""
    WAIT = auto()
    """Wait until another process has started it, and share it."""


class NotRunning(StoreUnavailable):
    """The embedded server of a coven does not run."""


class ServerMoved(StoreUnavailable):
    """The embedded server came back at another address, where our connection cannot follow."""


class Link:
    """An open connection to the journals. `watch` keeps it: it brings an embedded server back when it dies."""

    def __init__(
        self,
        store: JetStreamStore,
        *,
        folder: Path | None = None,
        server: EmbeddedServer | None = None,
        address: ServerAddress | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.store, self.server = store, server
        self._folder, self._address = folder, address
        self._clock = clock or SystemClock()
        self._unwritten: tuple[float, ...] = ()
        self._lost = asyncio.Event()
        store.connection.on_lost.append(self._lost.set)

    def __repr__(self) -> str:
        return f"<Link {self.where}>"

    @property
    def where(self) -> str:
        """The server in a few words, for people."""
        if self._address is None:
            return f"NATS at {self.store.connection.url}"
        how = "embedded" if self.server is not None else "shared"
        return f"{how} NATS {self._address.version} ({self._address.durability})"

    async def watch(self) -> None:
        """Runs until cancelled. Raises `StoreUnavailable` when an embedded server cannot be brought back."""
        if self._folder is None or self._address is None:
            await asyncio.get_running_loop().create_future()
            return
        while True:
            if self.server is not None:
                await self._bring_back(self.server, await self.server.wait_failed())
            else:
                await self._lost.wait()
                self._lost.clear()
                await self._find_or_take(self._folder, self._address)

    async def _bring_back(self, server: EmbeddedServer, failure: ServerFailure) -> None:
        """Start our own server again, on its port; what was acknowledged is on its disk.

        One that was killed comes back at once. One that could not write its store will most likely fail again: it is
        started again after a growing delay, and given up after so many times.
        """
        backoff, failures = Backoff(), (self._clock.now(),)
        _log.warning("the NATS server died and is started again", reason=str(failure))
        if failure.could_not_write:
            self._unwritten = failures = backoff.recent((*self._unwritten, *failures), self._clock.now())
            delay = backoff.delay(failures, self._clock.now())
            if delay is None:
                raise StoreUnavailable(
                    f"{failure}; that was {len(failures)} times within {backoff.window:g} s. What was acknowledged is "
                    "safe: see to the disk (its room, a quota, whether it is mounted for reading only), and start again"
                )
            await self._clock.sleep(delay)
        while True:
            try:
                await server.restart()
                return
            except JournalError as error:
                failures = backoff.recent((*failures, self._clock.now()), self._clock.now())
                delay = backoff.delay(failures, self._clock.now())
                if delay is None:
                    raise
                _log.warning("the NATS server does not start", error=str(error), delay=delay)
                await self._clock.sleep(delay)

    async def _find_or_take(self, folder: Path, before: ServerAddress) -> None:
        """The process that had started the server has left, or restarts it: take it over, or wait for who does."""
        server = EmbeddedServer(folder, before.durability)
        while True:
            now = await find_server(folder)
            if now is None:
                try:
                    await server.start()
                except FolderTaken:
                    await self._clock.sleep(_LOOK_AGAIN_S)
                    continue
                now = server.address
                self.server = server
                _log.warning("whoever had started the NATS server has left; this process runs it now", url=now.url)
            self._address = now
            if (now.url, now.token) != (before.url, before.token):
                raise ServerMoved(f"the NATS server of this coven is at {now.url} now; start this command again")
            return

    async def close(self) -> None:
        """Close the connection, then stop the server if it is ours."""
        await self.store.close()
        if self.server is not None:
            await self.server.stop()


class SignIn(NamedTuple):
    """An address with what it takes to be let in. Never print it."""

    url: str
    token: str | None
    credentials: str | None


def sign_in(config: Config) -> SignIn:
    """How to reach the server that the configuration names. Raises `SecretUnset`."""
    nats, url = config.nats, config.nats.url.reveal()
    if nats.user is not None and nats.password is not None:
        who = f"{quote(nats.user, safe='')}:{quote(nats.password.reveal(), safe='')}@"
        url = ",".join(part.replace("://", f"://{who}", 1) for part in url.split(","))
    return SignIn(
        url,
        None if nats.token is None else nats.token.reveal(),
        None if nats.credentials is None else str(config.base / nats.credentials),
    )


@asynccontextmanager
async def linked(config: Config, join: Join, *, clock: Clock | None = None) -> AsyncGenerator[Link]:
    """Connect as the configuration says; an embedded server is started or, where allowed, joined.

    Raises what `JetStreamStore.connect` and `EmbeddedServer.start` raise, and `SecretUnset`.
    """
    link = await (_embedded(config, join, clock) if config.nats.embedded else _remote(config, clock))
    try:
        yield link
    finally:
        await link.close()


async def _remote(config: Config, clock: Clock | None) -> Link:
    signed = sign_in(config)
    store = await JetStreamStore.connect(
        signed.url,
        config.coven,
        token=signed.token,
        credentials=signed.credentials,
        replicas=config.nats.replicas,
    )
    return Link(store, clock=clock)


async def _embedded(config: Config, join: Join, clock: Clock | None) -> Link:
    folder = config.base / FOLDER
    server = EmbeddedServer(folder, config.durability or "power")
    address = await _start_or_join(server, folder, join, clock or SystemClock())
    owned = server if server.state == "running" else None
    try:
        store = await JetStreamStore.connect(address.url, config.coven, token=address.token)
    except BaseException:
        await server.stop()
        raise
    return Link(store, folder=folder, server=owned, address=address, clock=clock)


async def _start_or_join(server: EmbeddedServer, folder: Path, join: Join, clock: Clock) -> ServerAddress:
    """The address of the server: our own, or that of whoever came first and may still be starting it."""
    deadline = clock.now() + (_LEAVE_TIMEOUT_S if join is Join.NEVER else _JOIN_TIMEOUT_S)
    while True:
        if join is not Join.NEVER and (address := await find_server(folder)) is not None:
            return address
        if join is Join.RUNNING:
            raise NotRunning(f"no coven runs in {folder.parent.resolve()}, so nothing comes; start it with `coven run`")
        if join is Join.WAIT:
            await clock.sleep(_LOOK_AGAIN_S)
            continue
        try:
            await server.start()
        except FolderTaken:
            if clock.now() > deadline:
                raise
            await clock.sleep(_LOOK_AGAIN_S)
        else:
            return server.address
