"""The connection to a NATS server: made with clear errors, kept through outages, closed without waiting."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from contextlib import suppress
from socket import gaierror
from typing import Any

import msgspec
import nats.errors

from journals._errors import StoreMismatch, StoreRefused, StoreUnavailable
from journals._jetstream._asking import Asker, IsLast
from journals._jetstream._client import Delivery, FastClient
from journals._urls import without_credentials

MINIMUM_SERVER = (2, 14)
_CONNECT_TIMEOUT = 5.0
_ABSENT_TIMEOUT = 2.0
_CLOSE_TIMEOUT = 1.0
_RECONNECT_WAIT = 0.1
_SOON = 0.01
_NOBODY = b"NATS/1.0 503"
_NO_LEADER = 10008
_FEW = 8
_AROUND = 64 * 1024
_DENIED = re.compile(r"permissions violation for (?:publish|subscription) to \"(?P<subject>[^\"]*)\"", re.IGNORECASE)
_log = logging.getLogger("coven.journals")


class Connection:
    """One client of a server. Reconnects by itself; `lost` callbacks hear of every loss.

    While the server is away nothing is buffered: writes fail at once as unacknowledged, requests wait for its return
    for at most `patience` seconds. Whoever asks for much at once does so under `few`: the server cuts a connection off
    where more than 64 MB wait to be taken.
    """

    def __init__(self, url: str, patience: float) -> None:
        self._address, self.url, self.patience = url, without_credentials(url), patience
        self.client = FastClient()
        self._asker = Asker(self.client)
        self.on_lost: list[Callable[[], None]] = [self._asker.lost]
        self.on_denied: list[Callable[[str], None]] = [self._asker.denied]
        self.few = asyncio.Semaphore(_FEW)
        self._connected = asyncio.Event()
        self._closed = ""
        self._last_error: Exception | None = None
        self._opened = False
        self._opening: asyncio.Timeout | None = None

    def __repr__(self) -> str:
        return f"<Connection {self.url} {'connected' if self.client.is_connected else 'not connected'}>"

    @classmethod
    async def open(cls, url: str, *, token: str | None, credentials: str | None, patience: float) -> Connection:
        """Connect and check the server. Raises `StoreUnavailable`, `StoreRefused`, `StoreMismatch`."""
        connection = cls(url, patience)
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT) as connection._opening:
                await connection._connect(token, credentials)
        except (TimeoutError, OSError, nats.errors.Error) as error:
            explained = connection._explained(error)
            await connection.close()  # which may meet errors of its own
            raise explained from None
        try:
            connection._check_server()
        except StoreMismatch:
            await connection.close()
            raise
        return connection

    async def _connect(self, token: str | None, credentials: str | None) -> None:
        options: dict[str, Any] = {"reconnect_time_wait": _RECONNECT_WAIT}
        if token:
            options["token"] = token
        if credentials:
            options["user_credentials"] = credentials
        await self.client.connect(
            self._address,
            name="coven",
            max_reconnect_attempts=-1,
            connect_timeout=2,
            ping_interval=20,
            max_outstanding_pings=3,
            pending_size=0,
            skip_subject_validation=True,
            error_cb=self._error,
            closed_cb=self._gone,
            disconnected_cb=self._disconnected,
            reconnected_cb=self._reconnected,
            **options,
        )
        await self._asker.open()
        self._opened, self._opening = True, None
        self._connected.set()

    def _explained(self, error: Exception) -> StoreUnavailable | StoreRefused:
        cause = self._last_error or error
        if _is_refusal(cause):
            return StoreRefused(
                f"the NATS server at {self.url} refuses these credentials ({cause}); "
                "set `nats:` in coven.yaml to the right token or credentials file"
            )
        reason = str(cause) or type(cause).__name__
        return StoreUnavailable(
            f"no NATS server answers at {self.url} ({reason}); start it, or set `nats: embedded` in coven.yaml"
        )

    def _check_server(self) -> None:
        version = self.client.connected_server_version
        if (version.major, version.minor) < MINIMUM_SERVER:
            raise StoreMismatch(
                f"the NATS server at {self.url} is {version.major}.{version.minor}.{version.patch}; Coven needs "
                f"{MINIMUM_SERVER[0]}.{MINIMUM_SERVER[1]} or newer, since older ones ignore fences and atomic "
                "batches: upgrade the server"
            )

    async def ready(self) -> None:
        """Wait until connected. Raises `StoreUnavailable` when that takes longer than the patience."""
        if self.client.is_connected and self._connected.is_set() and not self._closed:
            return
        try:
            async with asyncio.timeout(self.patience):
                await self._connected.wait()
                while not self.client.is_connected and not self._closed:
                    await asyncio.sleep(_SOON)  # it has lost the server, and says so in a moment
                    await self._connected.wait()
            if self._closed:
                raise StoreUnavailable(f"the connection to {self.url} has been closed {self._closed}")
        except TimeoutError:
            raise StoreUnavailable(
                f"the NATS server at {self.url} has been away for {self.patience:.0f} s; what was acknowledged is "
                "safe, what was not is looked up before it is sent again: bring the server back"
            ) from None

    def at_least_one(self, size: int) -> int:
        """So many bytes, or as many as the largest message of this server takes with all that is around it."""
        return max(size, self.client.max_payload + _AROUND)

    async def ask(self, subject: str, body: bytes, is_last: IsLast) -> list[Delivery]:
        """See `Asker.ask`."""
        return await self._asker.ask(subject, body, is_last)

    async def request(self, subject: str, body: bytes = b"", *, timeout: float = 5.0) -> Delivery:
        """Ask something that may be asked twice; asked again after an outage. Raises `StoreUnavailable`."""
        deadline = asyncio.get_running_loop().time() + self.patience
        while True:
            await self.ready()
            try:
                async with asyncio.timeout(timeout):
                    (answer,) = await self._asker.ask(subject, body)
                if not answer.headers.startswith(_NOBODY):
                    return answer
                problem = "nobody answers it"
            except (nats.errors.Error, OSError, TimeoutError) as error:
                problem = str(error) or type(error).__name__
            if asyncio.get_running_loop().time() > deadline:
                raise StoreUnavailable(
                    f"the NATS server at {self.url} does not answer {subject} ({problem}); is JetStream enabled there, "
                    "and may this account use it? `coven doctor` says more"
                )
            await asyncio.sleep(_RECONNECT_WAIT)

    async def api(self, operation: str, request: Any = None) -> dict[str, Any]:
        """One call of the JetStream API; the reply is given as it comes, an `error` included.

        A cluster that is choosing a leader is asked again until it has one, for as long as the patience lasts.
        """
        body = b"" if request is None else msgspec.json.encode(request)
        deadline = asyncio.get_running_loop().time() + self.patience
        while True:
            reply = msgspec.json.decode((await self.request(f"$JS.API.{operation}", body)).body)
            code = reply.get("error", {}).get("err_code")
            if code != _NO_LEADER or asyncio.get_running_loop().time() > deadline:
                return reply
            await asyncio.sleep(_RECONNECT_WAIT)

    async def close(self) -> None:
        """Close at once, and end whatever waits. A server that stands still is waited for a second."""
        self._closed = self._closed or "here"
        self._connected.set()  # so that whoever waits for the server learns that it is over
        if not self.client.is_closed:
            alarm = asyncio.get_running_loop().call_later(_CLOSE_TIMEOUT, self.client.abort)
            try:
                with suppress(OSError, nats.errors.Error):  # it may be lost at this very moment
                    await self.client.close()
            finally:
                alarm.cancel()
                self._tell_lost()

    async def _error(self, error: Exception) -> None:
        self._last_error = error
        _log.debug("NATS client at %s: %s", self.url, str(error) or type(error).__name__)
        denied = _DENIED.search(str(error))
        if denied is not None:
            _log.error("the NATS server at %s does not permit this: %s", self.url, error)
            for callback in self.on_denied:
                callback(denied["subject"])
        if not self._opened and _is_refusal(error):
            raise error  # ends the client's connecting, which would try the same credentials again
        if self._opening is not None and isinstance(error, (ConnectionRefusedError, gaierror)):
            self._wait_for_start(self._opening, error)

    def _wait_for_start(self, opening: asyncio.Timeout, error: OSError) -> None:
        """Nobody is there: it may just be starting, but that is waited for less long than for one that is slow."""
        self._opening = None
        reason = str(error) or type(error).__name__
        _log.warning("no NATS server answers at %s yet (%s); waiting %.0f s for it", self.url, reason, _ABSENT_TIMEOUT)
        soon = asyncio.get_running_loop().time() + _ABSENT_TIMEOUT
        if not opening.expired():
            opening.reschedule(min(soon, opening.when() or soon))

    async def _gone(self) -> None:
        """The client has closed: because we did, or for good, after something that it takes for fatal."""
        if not self._closed:
            self._closed = f"for good, after the server said: {self.client.last_error}; start again"
            _log.error("the connection to %s has been closed %s", self.url, self._closed)
        self._connected.set()

    async def _disconnected(self) -> None:
        if not self._closed:
            self._connected.clear()
        if not self.client.is_closed:
            _log.warning("the NATS server at %s is away; waiting for it", self.url)
        self._tell_lost()

    def _tell_lost(self) -> None:
        for callback in self.on_lost:
            callback()

    async def _reconnected(self) -> None:
        _log.warning("the NATS server at %s is back", self.url)
        self._connected.set()


def _is_refusal(error: Exception) -> bool:
    text = str(error).lower()
    return "authorization" in text or "authentication" in text
