"""The loopback provider: HTTP/1.1 by hand, so that a connection can break wherever a test wants it to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import cycle
from types import TracebackType
from typing import Any, Final, Literal, Protocol
from urllib.parse import urlsplit

import msgspec

from coven.testing.providers.anthropic import AnthropicFormat
from coven.testing.providers.completions import CompletionsFormat
from coven.testing.providers.gemini import GeminiFormat
from coven.testing.providers.reply import Refused, Reply
from coven.testing.providers.responses import ResponsesFormat

KEY: Final = "loopback-key"
_PIECES: Final = (1, 17, 2, 250, 3, 64, 5, 1000)
_REASONS: Final = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests"}


class Format(Protocol):
    """One provider's wire format."""

    def serves(self, path: str) -> bool:
        """Whether requests to this path are in this format."""
        ...

    def streams(self, path: str, body: Mapping[str, Any]) -> bool:
        """Whether the answer is to be a stream."""
        ...

    def check(self, path: str, headers: Mapping[str, str], body: Mapping[str, Any]) -> None:
        """Raises `Refused` for what the provider would not take."""
        ...

    def answer(self, body: Mapping[str, Any], reply: Reply) -> Mapping[str, Any]:
        """The answer in one piece."""
        ...

    def events(self, body: Mapping[str, Any], reply: Reply) -> Iterator[bytes]:
        """The answer as server-sent events."""
        ...

    def error(self, status: int, message: str) -> Mapping[str, Any]:
        """The body of an error."""
        ...


class Received(msgspec.Struct, frozen=True):
    """A request that came in. Header names are in small letters."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class ProviderServer:
    """All providers at once, each under its own paths. It answers by a script, one reply a request.

    Use it as a context manager; `url` is its address, `requests` what it was asked and found in order, `refused` why
    it refused what it did not. `asked` is set by the first request.
    """

    def __init__(
        self, replies: Iterable[Reply] = (), *, key: str = KEY, answer: Callable[[Received], Reply] | None = None
    ) -> None:
        """`answer` replies to what the script has no reply for, by what it was asked."""
        self.key, self.replies, self.answer = key, list(replies), answer
        self.requests: list[Received] = []
        self.refused: list[str] = []
        self.asked = asyncio.Event()
        formats = (AnthropicFormat, CompletionsFormat, ResponsesFormat, GeminiFormat)
        self.formats: tuple[Format, ...] = tuple(made(key) for made in formats)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<ProviderServer {len(self.requests)} requests, {len(self.replies)} replies left>"

    @property
    def url(self) -> str:
        """Its address, without a path."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> ProviderServer:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            # Cancelled is how it ends with the server; asyncio would complain of a handler that was.
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._serve(reader, writer):
                    pass
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; false when the connection is over."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ", 2)
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        raw = await reader.readexactly(int(headers.get("content-length", "0")))
        path = urlsplit(target).path
        if method == "GET" and path.endswith("/models"):
            return await self._send(writer, 200, {"object": "list", "data": [{"id": "loopback", "object": "model"}]})
        format = next((each for each in self.formats if each.serves(path)), None)
        if format is None:
            return await self._send(writer, 404, {"error": {"message": f"there is nothing at {path}"}})
        try:
            body: dict[str, Any] = json.loads(raw)
            try:
                format.check(target, headers, body)
            except (LookupError, TypeError, ValueError) as error:
                raise Refused(f"the request is malformed: {error!r}") from error
        except Refused as refused:
            self.refused.append(str(refused))
            return await self._send(writer, refused.status, format.error(refused.status, str(refused)))
        self.requests.append(Received(path, headers, body))
        self.asked.set()
        if not self.replies and self.answer is not None:
            return await self._reply(reader, writer, format, target, body, self.answer(self.requests[-1]))
        if not self.replies:
            return await self._send(writer, 500, format.error(500, "the script of the loopback provider is at its end"))
        return await self._reply(reader, writer, format, target, body, self.replies.pop(0))

    async def _reply(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        format: Format,
        target: str,
        body: dict[str, Any],
        reply: Reply,
    ) -> bool:
        if reply.hold is not None and not await _held(reader, reply.hold, reply.given_up):
            return False
        if reply.status != 200:
            return await self._send(writer, reply.status, format.error(reply.status, reply.message), reply.headers)
        if not format.streams(target, body):
            whole = await self._send(writer, 200, format.answer(body, reply), breaks_after=reply.breaks_after)
            return whole or await _broken_off(reader, writer, reply)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        await writer.drain()
        left = reply.breaks_after
        for piece in _pieces(b"".join(format.events(body, reply))):
            if left is not None and left <= 0:
                return await _broken_off(reader, writer, reply)
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await writer.drain()
            await asyncio.sleep(0)
            left = None if left is None else left - len(piece)
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    async def _send(
        self,
        writer: asyncio.StreamWriter,
        status: int,
        body: Mapping[str, Any],
        headers: Mapping[str, str] | None = None,
        breaks_after: int | None = None,
    ) -> bool:
        raw = json.dumps(body).encode()
        lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Error')}", "content-type: application/json"]
        lines += [f"content-length: {len(raw)}", *(f"{name}: {value}" for name, value in (headers or {}).items())]
        writer.write("\r\n".join([*lines, "", ""]).encode() + raw[:breaks_after])
        await writer.drain()
        return breaks_after is None


async def _held(reader: asyncio.StreamReader, hold: asyncio.Event, given_up: asyncio.Event | None) -> bool:
    """Wait until the reply may go out; false when the asker has closed the connection before."""
    released, closed = asyncio.ensure_future(hold.wait()), asyncio.ensure_future(reader.read(1))
    try:
        await asyncio.wait((released, closed), return_when=asyncio.FIRST_COMPLETED)
        if closed.done() and not hold.is_set():
            if given_up is not None:
                given_up.set()
            return False
        return True
    finally:
        released.cancel()
        closed.cancel()
        await asyncio.gather(released, closed, return_exceptions=True)


async def _broken_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, reply: Reply) -> Literal[False]:
    """The connection is over; where it is only half closed, once the asker has closed the other half."""
    if reply.half_closes:
        writer.write_eof()
        with suppress(ConnectionError):
            await reader.read()
        if reply.given_up is not None:
            reply.given_up.set()
    return False


def _pieces(body: bytes) -> Iterator[bytes]:
    """The body cut without regard for lines, events or characters."""
    at = 0
    for size in cycle(_PIECES):
        if at >= len(body):
            return
        yield body[at : at + size]
        at += size
