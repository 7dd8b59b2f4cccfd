"""Socket Mode: one connection after the other through which Slack sends what happens.

The connection that `slack-sdk` has for it is not used: it hides that a token is refused, tries an address again that
has expired, closes the old connection before there is a new one, and loses the order of what comes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import aiohttp
import msgspec

from branches.chat.live import Away
from leaves.chats.slack.incoming import Envelope
from policies import Clock, sleep_until

RECONNECT_S = 5.0
_HELLO_S = 15.0
_HEARTBEAT_S = 20.0
_EXPECTED = ("warning", "refresh_requested")
_log = logging.getLogger("coven.chat")


class Received(NamedTuple):
    """An envelope, and the connection that it came through."""

    envelope: Envelope
    socket: aiohttp.ClientWebSocketResponse


class Socket:
    """`take` gets every envelope, at once and in order; `address` asks Slack where to connect, once for each time."""

    def __init__(self, address: Callable[[], Awaitable[str]], take: Callable[[Received], object], clock: Clock) -> None:
        self._address, self._take, self._clock = address, take, clock
        self._current: aiohttp.ClientWebSocketResponse | None = None
        self._connections, self._heard = 0, 0.0

    def __repr__(self) -> str:
        open = self._current is not None and not self._current.closed
        return f"<Socket {'open' if open else 'closed'}, {self._connections} connections>"

    async def run(self, connected: Callable[[float | None], object]) -> None:
        """Be connected until cancelled; `connected` is called each time. Raises what `address` raises, but `Away`.

        A new connection is there before the old one is closed, if Slack has asked for it. Otherwise something may have
        been missed: `connected` is told when Slack was heard last, 0 if never, and None where nothing was missed.
        """
        async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as tasks:
            reason = "never connected"
            try:
                while True:
                    socket = await self._patiently(session)
                    old, self._current = self._current, socket
                    self._connections += 1
                    if old is not None:
                        tasks.create_task(_close(old))
                    at_once = self._clock.now() < self._heard + RECONNECT_S
                    connected(None if reason in _EXPECTED and at_once else self._heard)
                    reason = await self._read(socket)
                    if reason not in _EXPECTED:
                        _log.warning("the connection to Slack has ended: %s", reason or "it was lost")
                        if reason:
                            await self._pause()
            finally:
                if self._current is not None:
                    await _close(self._current)

    async def acknowledge(self, received: Received, payload: Mapping[str, Any] | None = None) -> None:
        """Tell Slack that an envelope need not be sent again; `payload` answers a command.

        When the connection is gone, nothing is told: Slack sends it again, and it is known then.
        """
        response: dict[str, Any] = {"envelope_id": received.envelope.envelope_id}
        if payload is not None:
            response["payload"] = payload
        socket = received.socket if not received.socket.closed else self._current
        if socket is not None:
            try:
                await socket.send_str(msgspec.json.encode(response).decode())
            except (aiohttp.ClientError, OSError) as error:
                _log.info("an envelope of Slack is not acknowledged, and will come again: %s", error)

    async def _patiently(self, session: aiohttp.ClientSession) -> aiohttp.ClientWebSocketResponse:
        while True:
            try:
                return await self._connect(session)
            except Away as error:
                _log.warning("%s; trying again", error)
                await self._pause()

    async def _connect(self, session: aiohttp.ClientSession) -> aiohttp.ClientWebSocketResponse:
        """A connection that Slack has greeted."""
        address = await self._address()
        socket, problem = None, "Slack did not greet"
        try:
            async with asyncio.timeout(_HELLO_S):
                socket = await session.ws_connect(address, heartbeat=_HEARTBEAT_S)
                frame = await socket.receive()
                if frame.type is aiohttp.WSMsgType.TEXT and _envelope(frame.data).type == "hello":
                    return socket
        except (aiohttp.ClientError, OSError) as error:  # its text may hold the ticket of the address
            problem = f"Slack cannot be connected to ({type(error).__name__})"
        if socket is not None:
            await _close(socket)
        raise Away(problem)

    async def _read(self, socket: aiohttp.ClientWebSocketResponse) -> str:
        """Take what comes until the connection ends; gives Slack's reason for it, if it told one."""
        self._heard = self._clock.now()
        async for frame in socket:
            self._heard = self._clock.now()
            if frame.type is aiohttp.WSMsgType.TEXT:
                envelope = _envelope(frame.data)
                if envelope.type == "disconnect":
                    return envelope.reason or "no reason"
                self._take(Received(envelope, socket))
        return ""

    async def _pause(self) -> None:
        await sleep_until(self._clock, self._clock.now() + RECONNECT_S)


def _envelope(text: str) -> Envelope:
    try:
        return msgspec.json.decode(text, type=Envelope)
    except msgspec.DecodeError as error:
        _log.warning("Slack sent something that cannot be read: %s", error)
        return Envelope("unreadable")


async def _close(socket: aiohttp.ClientWebSocketResponse) -> None:
    """Close a connection; Slack may take its time to agree, for which nobody waits long."""
    try:
        async with asyncio.timeout(1.0):
            await socket.close()
    except (TimeoutError, aiohttp.ClientError, OSError):
        pass
