"""`nats-py`'s client with its two hottest paths replaced.

Profiles show half of an append's time in the library's checking of headers that are checked here already, and half
of a read's in its queue, task and header parsing for each message. Both overrides are optional: were the library to
rename what they replace, everything would still work through its public methods, only slower (a test watches that).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

_PLAIN = "NATS/1.0\r\n"


class Delivery(NamedTuple):
    """A message as it came over the wire. `headers` is the raw block, empty where there is none."""

    subject: str
    reply: str
    headers: bytes
    body: bytes


Receiver = Callable[[Delivery], None]
"""Takes a delivery; runs inside the client's reading, so it must be quick and must not raise."""


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


class FastClient(Client):
    """Publishes checked headers without checking them again, and hands messages to receivers without a queue."""

    def __init__(self) -> None:
        super().__init__()
        self._receivers: dict[int, Receiver] = {}

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

    async def forget(self, subscription: Any) -> None:
        """Unsubscribe. Raises nothing when the connection is gone: then there is nothing to unsubscribe from."""
        self._receivers.pop(subscription._id, None)
        with suppress(nats.errors.Error, OSError):
            await subscription.unsubscribe()

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        receiver = self._receivers.get(sid)
        if receiver is None:
            return await super()._process_msg(sid, subject, reply, data, headers)
        return receiver(Delivery(subject.decode(), reply.decode(), headers or b"", data))

    async def _send_publish(
        self, subject: str, reply: str, payload: bytes, payload_size: int, headers: dict[str, Any] | None
    ) -> None:
        if not headers:
            return await super()._send_publish(subject, reply, payload, payload_size, headers)
        block = "NATS/1.0\r\n" + "".join([f"{name}: {value}\r\n" for name, value in headers.items()]) + "\r\n"
        raw = block.encode()
        size = len(raw)
        frame = f"HPUB {subject} {reply} {size} {size + payload_size}\r\n".encode() + raw + payload + b"\r\n"
        self._pending.append(frame)
        self._pending_data_size += len(frame)
        if self._flush_queue is not None and self._flush_queue.empty():
            await self._flush_pending()
        return None
