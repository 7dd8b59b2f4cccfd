"""The gateway: sessions that are identified or resumed, heartbeats, and events that wait for who was away."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from aiohttp import WSMsgType, web

from coven.testing._loopback import Loopback

_BAD_TOKEN = 4004


class Session:
    """One session: its events by number, and the connection that it has now."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.events: list[dict[str, Any]] = []
        self.socket: web.WebSocketResponse | None = None

    def add(self, kind: str, data: Any) -> dict[str, Any]:
        """One more event."""
        event = {"op": 0, "s": len(self.events) + 1, "t": kind, "d": data}
        self.events.append(event)
        return event


class Gateway(Loopback):
    """Serves web sockets. `greet` makes the events of a new session; its counters are for tests to look at."""

    def __init__(self, token: str, heartbeat_ms: int) -> None:
        super().__init__()
        self._token, self._heartbeat_ms = token, heartbeat_ms
        self._sessions: dict[str, Session] = {}
        self.current: Session | None = None
        self.url = ""
        self.identified = self.resumed = self.heartbeats = 0

    def __repr__(self) -> str:
        return f"<Gateway {len(self._sessions)} sessions, {self.identified} identified, {self.resumed} resumed>"

    def ready(self, session: Session) -> list[tuple[str, Any]]:
        """The first events of a session."""
        raise NotImplementedError

    async def dispatch(self, kind: str, data: Any) -> None:
        """Tell the bot that something happened, now or when it resumes."""
        session = self.current
        if session is not None:
            await self._send(session.socket, session.add(kind, data))

    async def again(self, kind: str) -> None:
        """Send the newest event of this kind a second time, as the gateway does after some resumes."""
        session = self.current
        if session is not None:
            await self._send(session.socket, next(e for e in reversed(session.events) if e["t"] == kind))

    async def drop(self, code: int = 4000) -> None:
        """Close the bot's connection; 4000 is one after which it may resume."""
        if self.current is not None and self.current.socket is not None:
            await self.current.socket.close(code=code)

    def forget(self) -> None:
        """Forget all sessions: none can be resumed."""
        self._sessions.clear()

    async def ask_to_reconnect(self) -> None:
        """Have the bot come back by itself."""
        if self.current is not None:
            await self._send(self.current.socket, {"op": 7, "d": None})

    async def handle(self, request: web.Request) -> web.WebSocketResponse:
        """One connection."""
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await self._send(socket, {"op": 10, "d": {"heartbeat_interval": self._heartbeat_ms}})
        session: Session | None = None
        async for frame in socket:
            if frame.type is not WSMsgType.TEXT:
                break
            message: dict[str, Any] = json.loads(frame.data)
            match message["op"]:
                case 1:
                    self.heartbeats += 1
                    await self._send(socket, {"op": 11})
                case 2:
                    session = await self._identify(socket, message["d"])
                case 6:
                    session = await self._resume(socket, message["d"])
                case _:
                    pass
            await self.note()
        if session is not None and session.socket is socket:
            session.socket = None
        await self.note()
        return socket

    async def _identify(self, socket: web.WebSocketResponse, data: dict[str, Any]) -> Session | None:
        if data["token"] != self._token:
            await socket.close(code=_BAD_TOKEN)
            return None
        self.identified += 1
        session = self.current = Session(f"session-{self.identified}")
        self._sessions[session.id] = session
        session.socket = socket
        for kind, payload in self.ready(session):
            await self._send(socket, session.add(kind, payload))
        return session

    async def _resume(self, socket: web.WebSocketResponse, data: dict[str, Any]) -> Session | None:
        session = self._sessions.get(data["session_id"])
        if session is None or data["token"] != self._token:
            await self._send(socket, {"op": 9, "d": False})
            return None
        self.resumed += 1
        self.current, session.socket = session, socket
        for event in session.events[data["seq"] :]:
            await self._send(socket, event)
        await self._send(socket, session.add("RESUMED", {}))
        return session

    async def _send(self, socket: web.WebSocketResponse | None, payload: dict[str, Any]) -> None:
        if socket is not None and not socket.closed:
            with contextlib.suppress(ConnectionError):  # it comes with the next resume
                await socket.send_str(json.dumps(payload))
