"""`nats-py`'s client with its hottest paths replaced.

Profiles showed half of an append's time in the library's checking of headers that are checked here already, in its
flusher task and its parser, and half of a read's in its queue, task and header parsing for each message. Every
override is optional: were the library to rename what it replaces, all would still work through the public methods,
only slower (a test watches that).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.transport import TcpTransport
from nats.protocol.parser import AWAITING_CONTROL_LINE, Parser

_PLAIN = "NATS/1.0\r\n"
_MAX_LINE = 4096
_colon = ": ".join


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """A message as it came over the wire. `headers` is the raw block, empty where there is none."""

    subject: str
    reply: str
    headers: bytes
    body: bytes


Receiver = Callable[[Delivery], None]
"""Takes a delivery; runs inside the client's reading, so it must be quick and must not raise."""

Acknowledger = Callable[[bytes, bytes], None]
"""Takes subject and body of a reply, which is all that it needs of it; like a `Receiver` otherwise."""


def parse_headers(raw: bytes) -> dict[str, str]:
    """The headers of a raw block; the number of a status line becomes `Status`."""
    text = raw.decode("utf-8", "replace")
    if text.startswith(_PLAIN):
        try:
            return dict([line.split(": ", 1) for line in text[len(_PLAIN) : -4].split("\r\n")])
        except ValueError:
            pass  # a line that we did not write: take it apart with care
    head, _, rest = text.partition("\r\n")
    headers: dict[str, str] = {"Status": head[9:12]} if len(head) > 9 else {}
    for line in rest.split("\r\n"):
        name, colon, value = line.partition(":")
        if colon:
            headers[name] = value.strip()
    return headers


def encode_publish(subject: str, reply: str, headers: dict[str, str], body: bytes) -> bytes:
    """The frame of a message whose headers have been checked."""
    if not headers:
        return b"".join((f"PUB {subject} {reply} {len(body)}\r\n".encode(), body, b"\r\n"))
    lines = "\r\n".join(map(_colon, headers.items()))
    block = f"NATS/1.0\r\n{lines}\r\n\r\n" if lines else "NATS/1.0\r\n\r\n"
    size = len(block) if block.isascii() else len(block.encode())
    return b"".join((f"HPUB {subject} {reply} {size} {size + len(body)}\r\n{block}".encode(), body, b"\r\n"))


class FastClient(Client):
    """Publishes checked headers without checking them again, and hands messages to receivers without a queue."""

    def __init__(self) -> None:
        super().__init__()
        self._receivers: dict[int, Receiver] = {}
        self._acknowledgers: dict[int, Acknowledger] = {}
        self._ps = self._parser = _FastParser(self, self.receive)
        self._flushing = False
        self._ended = False
        self._cancelled_before = 0

    def abort(self) -> None:
        """Give the connection up at once, with what the server has not taken."""
        writer: Any = getattr(self._transport, "_io_writer", None)
        if writer is not None:
            writer.transport.abort()

    async def connect(self, *arguments: Any, **options: Any) -> None:
        """See `Client.connect`."""
        self._cancelled_before = _cancellations()
        await super().connect(*arguments, **options)  # pyright: ignore[reportUnknownMemberType]

    async def _close(self, status: int, do_cbs: bool = True) -> None:
        self._ended = self._ended or status == Client.CLOSED
        await super()._close(status, do_cbs)

    async def _connect_to_server(self, s: Any) -> None:
        self._heed()
        await super()._connect_to_server(s)
        self._heed()

    async def _process_connect_init(self) -> None:
        await super()._process_connect_init()
        self._heed()

    def _heed(self) -> None:
        """The library waits by `wait_for`, which before Python 3.12 swallows a cancellation that comes together with
        what it waits for; then it would go on connecting, for ever where no server is.
        """
        if _cancellations() > self._cancelled_before:
            if self._ended:
                self._status = Client.CLOSED
            self.abort()
            raise asyncio.CancelledError

    async def _attempt_reconnect(self) -> None:
        self._cancelled_before = 0
        self.abort()  # a server that stands still takes nothing, and closing would wait for it
        await super()._attempt_reconnect()

    async def _read_loop(self) -> None:
        self._parser.reset()  # the beginning of a message may have come while the last connection was given up
        transport: Any = self._transport
        reader: Any = getattr(transport, "_io_reader", None)
        if reader is not None and hasattr(reader, "_buffer"):
            feed: Callable[[bytes], None] = reader.feed_data

            def feed_data(data: bytes) -> None:
                rest = data if reader._buffer else self._parser.take(data)
                if rest:
                    feed(rest)

            # What arrives is taken apart where it arrives; only what is not for us takes the way through this task.
            reader.feed_data = feed_data
        await super()._read_loop()

    async def listen(self, subject: str, receiver: Receiver) -> Any:
        """Subscribe; nothing is ever dropped, so the caller bounds what it asks for. Gives the subscription."""

        async def queued(message: Msg) -> None:
            headers = "".join(f"{name}: {value}\r\n" for name, value in (message.headers or {}).items())
            status = f" {(message.headers or {}).get('Status', '')}".rstrip()
            raw = f"NATS/1.0{status}\r\n{headers}\r\n".encode() if headers else b""
            receiver(Delivery(message.subject, message.reply, raw, message.data))

        client: Any = self  # the annotations of `subscribe` are incomplete
        subscription = await client.subscribe(subject, cb=queued, pending_msgs_limit=0, pending_bytes_limit=0)
        self._receivers[subscription._id] = receiver
        return subscription

    async def listen_to_replies(self, subject: str, acknowledger: Acknowledger) -> None:
        """The same for replies of which subject and body are enough, without the cost of a `Delivery` for each."""
        subscription = await self.listen(
            subject, lambda delivery: acknowledger(delivery.subject.encode(), delivery.body)
        )
        self._acknowledgers[subscription._id] = acknowledger

    async def forget(self, subscription: Any) -> None:
        """Unsubscribe. Raises nothing when the connection is gone: then there is nothing to unsubscribe from."""
        self._receivers.pop(subscription._id, None)
        with suppress(nats.errors.Error, OSError):
            await subscription.unsubscribe()

    def receive(self, sid: int, subject: bytes, reply: bytes, headers: bytes, body: bytes) -> bool:
        """Hand a message to its receiver; False when this subscription has none."""
        acknowledger = self._acknowledgers.get(sid)
        if acknowledger is not None:
            acknowledger(subject, body)
            return True
        receiver = self._receivers.get(sid)
        if receiver is None:
            return False
        receiver(Delivery(subject.decode(), reply.decode(), headers, body))
        return True

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        """What the library's parser took apart goes to the same receivers at once, so that order is kept."""
        if not self.receive(sid, subject, reply, headers or b"", data):
            await super()._process_msg(sid, subject, reply, data, headers)

    def publish_checked(
        self, messages: Iterable[tuple[str, dict[str, str], bytes]], reply: str = "", *, at_once: bool = False
    ) -> None:
        """Publish (subject, headers, body) whose headers were checked; one turn of the loop is sent together.

        What is to go `at_once` does not wait for what else this turn does.
        Raises `nats.errors.Error` while not connected and for a body over the server's limit.
        """
        if not self.is_connected:
            raise nats.errors.ConnectionReconnectingError if self.is_reconnecting else nats.errors.ConnectionClosedError
        limit = self.max_payload
        for subject, headers, body in messages:
            if len(body) > limit:
                raise nats.errors.MaxPayloadError
            frame = encode_publish(subject, reply, headers, body)
            self._pending.append(frame)
            self._pending_data_size += len(frame)
        if at_once:
            self._flush()
        elif not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush_now)

    def _flush_now(self) -> None:
        self._flushing = False
        self._flush()

    def _flush(self) -> None:
        if not isinstance(self._transport, TcpTransport):
            self._wake_flusher()
        elif self._pending and self.is_connected:
            pending, self._pending, self._pending_data_size = self._pending, [], 0
            with suppress(OSError):  # the reading side learns of it, and waits for the server's return
                self._transport.write(b"".join(pending))

    def _wake_flusher(self) -> None:
        """A WebSocket sends when it is awaited, which the library's own task does."""
        queue: asyncio.Queue[asyncio.Future[None]] | None = self._flush_queue
        if queue is not None and queue.empty():  # or that task is about to send it anyway
            queue.put_nowait(asyncio.get_running_loop().create_future())


class _FastParser(Parser):
    """Takes whole messages for receivers out of the buffer in one go, and leaves all else to the library's parser."""

    def __init__(self, client: Client, receive: Callable[[int, bytes, bytes, bytes, bytes], bool]) -> None:
        super().__init__(client)  # pyright: ignore[reportUnknownMemberType]
        self._receive = receive
        self._busy = False

    async def parse(self, data: bytes = b"") -> None:
        """See `Parser.parse`."""
        rest = self.take(data)
        if rest:
            self._busy = True
            try:
                await super().parse(rest)
            finally:
                self._busy = False

    def take(self, data: bytes) -> bytes:
        """Hand over the messages that stand at the beginning; gives what only the library's parser can deal with.

        The beginning of a message is kept for its other half. While the library's parser has something in hand, all
        goes there, so that order is kept.
        """
        if self._busy or self.state != AWAITING_CONTROL_LINE:
            return data
        if self.buf:
            self.buf.extend(data)
            data = bytes(self.buf)
            self.buf.clear()
        taken, waits = self._take_messages(data)
        rest = data[taken:] if taken else data
        if waits:
            self.buf.extend(rest)
            return b""
        return rest

    def _take_messages(self, data: bytes) -> tuple[int, bool]:
        """Hand over as many whole messages as stand at the beginning.

        Gives their length in bytes, and whether the rest is the beginning of another one.
        """
        receive = self._receive
        position, length = 0, len(data)
        while position < length:
            kind = data[position]
            if kind != 72 and kind != 77:  # H, M
                break
            end = data.find(b"\r\n", position)
            if end < 0:
                return position, length - position < _MAX_LINE
            line = data[position:end].split(b" ")
            body = end + 2
            try:
                if kind == 77 and line[0] == b"MSG":
                    size, header = int(line[-1]), 0
                    reply = line[3] if len(line) == 5 else b""
                elif line[0] == b"HMSG":
                    size, header = int(line[-1]), int(line[-2])
                    reply = line[3] if len(line) == 6 else b""
                else:
                    break
                sid = int(line[2])
            except (ValueError, IndexError):
                break
            after = body + size + 2
            if after > length:
                return position, True
            if not receive(sid, line[1], reply, data[body : body + header], data[body + header : body + size]):
                break
            position = after
        return position, False


def _cancellations() -> int:
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()
