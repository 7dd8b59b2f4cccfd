"""The chat leaf of the browser: it serves the page, and keeps each one that is open up to date."""

from __future__ import annotations

import asyncio
import hmac
import os
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from branches.chat import ChatChunk, ChatEfferent, ChatStreamCompleted
from branches.chat.entries import ChatActivity
from branches.chat.leaf import ChatPort, DeliveryFailed
from branches.secret import Secret, SecretUnset
from journals import Record
from leaves.chats.web.guard import HEADERS, admits, is_loopback
from leaves.chats.web.messages import FRAME_LIMIT, Hello, Piece
from leaves.chats.web.options import TOKEN, WebOptions
from leaves.chats.web.visit import SESSIONS, Visit
from leaves.serving import Server, address_of, listen

_PAGE = Path(__file__).parent / "page"
_FILES = {
    "/": ("page.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/text.js": ("text.js", "text/javascript"),
}
_HELLO_WITHIN_S = 10
_BAD_HELLO, _WRONG_TOKEN = 1008, 4401

_hello = msgspec.json.Decoder(Hello)


class WebChat:
    """Conversations with whoever opens the page; each browser has its own.

    The journal is the mailbox: a message is delivered once it is committed, and a page that comes back reads what it
    has missed.
    """

    def __init__(self, options: WebOptions, name: str) -> None:
        """Raises `SecretUnset` where others than this machine could come in and there is no token."""
        self._options, self._name = options, name
        secret = options.token or (Secret(f"${{{TOKEN}}}", os.environ) if os.environ.get(TOKEN) else None)
        if secret is None and not is_loopback(options.host):
            raise SecretUnset(TOKEN)
        self._token = None if secret is None else secret.reveal()
        self._visits: dict[str, set[Visit]] = {}
        self._port: ChatPort | None = None
        self._broken: asyncio.Future[None] | None = None
        self.address: str | None = None

    def __repr__(self) -> str:
        return f"<WebChat {self._name} at {self.address}: {sum(map(len, self._visits.values()))} pages>"

    async def run(self, port: ChatPort, ready: Callable[[], None]) -> None:
        """See `ChatLeaf.run`. Raises `OSError` where the address is taken, and what the port raises."""
        self._port, self._broken = port, asyncio.get_running_loop().create_future()
        listening = listen(self._options.host, self._options.port)
        self.address = f"{address_of(listening)}/"
        server = Server(self._app(), ws="websockets-sansio", ws_max_size=FRAME_LIMIT)
        serving = asyncio.create_task(server.serve([listening]))
        try:
            ready()
            print(f"chat: {self.address}", file=sys.stderr, flush=True)
            await asyncio.wait([serving, self._broken], return_when=asyncio.FIRST_COMPLETED)
            if self._broken.done():
                self._broken.result()
        finally:
            server.should_exit = True
            await asyncio.wait([serving])
            listening.close()

    async def deliver(self, message: Record[ChatEfferent]) -> str | None:
        """See `ChatLeaf.deliver`. Raises `DeliveryFailed` for a conversation that is no page's."""
        if not message.session.startswith(SESSIONS):
            raise DeliveryFailed(f"this message is for {message.session!r}, and no page has such a conversation")
        self._tell(message.session)
        return None

    async def show_activity(self, activity: Record[ChatActivity]) -> None:
        """See `ActiveLeaf.show_activity`: pages read it from the journal, so that it is there after a reload too."""
        self._tell(activity.session)

    async def show(self, chunk: Record[ChatChunk | ChatStreamCompleted]) -> None:
        """See `StreamingLeaf.show`. A stream that has ended waits for its message."""
        if isinstance(chunk.entry, ChatChunk):
            entry = chunk.entry
            piece = Piece(
                stream=entry.stream,
                index=entry.index,
                text=entry.text,
                prompt=chunk.correlation_id,
                thought=entry.thought,
            )
            for visit in self._visits.get(chunk.session, ()):
                visit.show(piece)

    async def show_thought(self, chunk: Record[ChatChunk | ChatStreamCompleted]) -> None:
        """See `ThinkingLeaf.show_thought`: it grows in the fold above the answer."""
        await self.show(chunk)

    def _tell(self, session: str) -> None:
        for visit in self._visits.get(session, ()):
            visit.tell()

    def _app(self) -> Starlette:
        pages = [Route(path, self._page(name, kind)) for path, (name, kind) in _FILES.items()]
        return Starlette(routes=[*pages, WebSocketRoute("/socket", self._socket)])

    def _page(self, name: str, kind: str) -> Callable[[Request], Response]:
        body = (_PAGE / name).read_bytes()

        def page(request: Request) -> Response:
            if not admits(request.headers, open_to_all=self._token is not None):
                return PlainTextResponse("this page is asked for as localhost or 127.0.0.1 only\n", 403, HEADERS)
            return Response(body, headers=HEADERS, media_type=kind)

        return page

    async def _socket(self, socket: WebSocket) -> None:
        if not admits(socket.headers, open_to_all=self._token is not None):
            await socket.close()  # before it is accepted: an answer with status 403
            return
        await socket.accept()
        try:
            async with asyncio.timeout(_HELLO_WITHIN_S):
                hello = _hello.decode(await socket.receive_text())
        except WebSocketDisconnect:
            return
        except (TimeoutError, msgspec.MsgspecError, KeyError, RecursionError):
            await socket.close(_BAD_HELLO, "the first message says which conversation")
            return
        if self._token is not None and not hmac.compare_digest(hello.token.encode(), self._token.encode()):
            await socket.close(_WRONG_TOKEN, "wrong token")
            return
        await self._serve(socket, hello)

    async def _serve(self, socket: WebSocket, hello: Hello) -> None:
        assert self._port is not None
        visit = Visit(
            socket, self._port, hello, title=self._options.title, sender=self._options.sender, recorded=self._tell
        )
        visits = self._visits.setdefault(visit.session, set())
        visits.add(visit)
        try:
            await visit.run()
        except Exception as error:  # noqa: BLE001 - the boundary to the server, which would only log it: the leaf fails
            if self._broken is not None and not self._broken.done():
                self._broken.set_exception(error)
        finally:
            visits.discard(visit)
            if not visits:
                self._visits.pop(visit.session, None)
