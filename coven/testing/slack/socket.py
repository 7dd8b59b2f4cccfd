"""Socket Mode: connections, and envelopes that are sent until they are acknowledged."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from typing import Any

from aiohttp import WSMsgType, web

from coven.testing._loopback import Loopback


class SocketMode(Loopback):
    """Serves web sockets, each under an address that is good once. Its counters are for tests to look at."""

    def __init__(self) -> None:
        super().__init__()
        self._tickets: set[str] = set()
        self._sockets: list[web.WebSocketResponse] = []
        self._transports: dict[web.WebSocketResponse, asyncio.Transport] = {}
        self._waiting: dict[str, dict[str, Any]] = {}
        self._given_up: set[str] = set()
        self.connections = 0
        self.mistakes: list[str] = []
        """What the app did that Slack would not take, in words."""
        self.acknowledged: dict[str, Any] = {}
        """The payloads that came with acknowledgements, None for most, by envelope."""

    def __repr__(self) -> str:
        return f"<SocketMode {len(self._sockets)} connections, {len(self._waiting)} envelopes wait>"

    @property
    def open(self) -> int:
        """How many connections there are now."""
        return len(self._sockets)

    @property
    def unacknowledged(self) -> list[str]:
        """The envelopes that would be sent again."""
        return list(self._waiting)

    def ticket(self) -> str:
        """What makes an address good for one connection."""
        ticket = secrets.token_hex(8)
        self._tickets.add(ticket)
        return ticket

    async def send(self, type: str, payload: dict[str, Any], *, answerable: bool = False) -> str:
        """Send an envelope through the newest connection, or to the next one; gives its id."""
        id = secrets.token_hex(8)
        envelope: dict[str, Any] = {
            "envelope_id": id,
            "type": type,
            "payload": payload,
            "accepts_response_payload": answerable,
        }
        if type == "events_api":
            envelope |= {"retry_attempt": 0, "retry_reason": ""}
        self._waiting[id] = envelope
        if self._sockets:
            await self._write(self._sockets[-1], envelope)
        return id

    async def redeliver(self) -> None:
        """Send what is not acknowledged once more, as Slack does after some seconds."""
        for envelope in list(self._waiting.values()):
            if envelope["type"] == "events_api":
                envelope |= {"retry_attempt": envelope["retry_attempt"] + 1, "retry_reason": "timeout"}
            if self._sockets:
                await self._write(self._sockets[-1], envelope)

    def give_up(self) -> None:
        """Send what is not acknowledged never again, as Slack does after some minutes."""
        self._given_up.update(self._waiting)
        self._waiting.clear()

    async def drop(self) -> None:
        """Cut all connections, without a word."""
        for transport in self._transports.values():
            transport.abort()

    async def ask_to_reconnect(self, reason: str = "refresh_requested") -> None:
        """Have the app come back through another connection."""
        if self._sockets:
            await self._write(self._sockets[-1], {"type": "disconnect", "reason": reason})

    async def utter(self, text: str) -> None:
        """Send something that is no envelope."""
        if self._sockets:
            await self._sockets[-1].send_str(text)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One connection."""
        ticket = request.query.get("ticket", "")
        if ticket not in self._tickets:
            return web.Response(status=408, text="the address has expired")
        self._tickets.discard(ticket)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.connections += 1
        await self._write(socket, {"type": "hello", "num_connections": len(self._sockets) + 1})
        self._sockets.append(socket)
        assert isinstance(request.transport, asyncio.Transport)
        self._transports[socket] = request.transport
        await self.redeliver()
        await self.note()
        try:
            async for frame in socket:
                if frame.type is WSMsgType.TEXT:
                    self._take(json.loads(frame.data))
                    await self.note()
        finally:
            self._sockets.remove(socket)
            del self._transports[socket]
            await self.note()
        return socket

    def _take(self, response: dict[str, Any]) -> None:
        """An acknowledgement."""
        id = str(response.get("envelope_id"))
        envelope = self._waiting.pop(id, None)
        if envelope is None and id in self._given_up:
            return
        if envelope is None:
            self.mistakes.append(f"acknowledged {response.get('envelope_id')!r}, which does not wait")
            return
        payload = response.get("payload")
        if payload is not None and not envelope["accepts_response_payload"]:
            self.mistakes.append(f"answered a {envelope['type']}, which takes no answer")
        self.acknowledged[envelope["envelope_id"]] = payload

    async def _write(self, socket: web.WebSocketResponse, payload: dict[str, Any]) -> None:
        with contextlib.suppress(ConnectionError):  # it is sent again
            await socket.send_str(json.dumps(payload))
