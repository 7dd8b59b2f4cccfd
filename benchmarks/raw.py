"""The least that each work needs, in plain `nats-py`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from journals import EmbeddedServer


@asynccontextmanager
async def connected(server: EmbeddedServer) -> AsyncIterator[Client]:
    """A client with the library's own settings."""
    client = await nats.connect(server.url, token=server.token)
    try:
        yield client
    finally:
        await client.close()


async def api(client: Client, operation: str, request: Any = None) -> dict[str, Any]:
    """One call of the JetStream API."""
    reply = await client.request(f"$JS.API.{operation}", json.dumps(request).encode() if request else b"", timeout=10)
    answer = json.loads(reply.data)
    assert "error" not in answer, answer
    return answer


async def make_stream(client: Client, name: str, **settings: Any) -> None:
    """A stream `<name>.>` on file, one replica."""
    await api(client, f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"], "storage": "file", **settings})


class Pull:
    """A pull consumer with an inbox of its own, which is how raw `nats-py` reads fastest."""

    def __init__(self, client: Client, stream: str, batch: int, callback: Any) -> None:
        self._client, self._stream, self._batch, self._callback = client, stream, batch, callback
        self._inbox = client.new_inbox()
        self._received = 0

    async def start(self, **config: Any) -> None:
        """Make the consumer and ask for two batches."""
        await self._client.subscribe(self._inbox, cb=self._receive, pending_msgs_limit=-1, pending_bytes_limit=-1)
        config = {"name": "c", "replay_policy": "instant", "deliver_policy": "all", **config}
        await api(self._client, f"CONSUMER.CREATE.{self._stream}.c", {"stream_name": self._stream, "config": config})
        await self._ask()
        await self._ask()

    async def _ask(self) -> None:
        request = json.dumps({"batch": self._batch, "expires": 30_000_000_000}).encode()
        await self._client.publish(f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.c", request, reply=self._inbox)

    async def _receive(self, message: Msg) -> None:
        if message.headers and "Status" in message.headers:
            return
        self._received += 1
        if self._received % self._batch == 0:
            await self._ask()
        await self._callback(message)


class Window:
    """Publishes with acknowledgements counted on one inbox, at most so many waiting."""

    def __init__(self, client: Client, limit: int = 4000) -> None:
        self._client, self._limit = client, limit
        self._inbox = client.new_inbox()
        self.sent = self.acknowledged = 0
        self._room = asyncio.Event()

    async def start(self) -> None:
        """Begin to listen."""
        await self._client.subscribe(self._inbox, cb=self._acknowledge, pending_msgs_limit=-1, pending_bytes_limit=-1)

    async def publish(self, subject: str, body: bytes, headers: dict[str, str] | None = None) -> None:
        """Publish once there is room."""
        while self.sent - self.acknowledged >= self._limit:
            self._room.clear()
            await self._room.wait()
        self.sent += 1
        await self._client.publish(subject, body, reply=self._inbox, headers=headers)

    async def finish(self) -> None:
        """Wait for every acknowledgement."""
        while self.acknowledged < self.sent:
            self._room.clear()
            await self._room.wait()

    async def _acknowledge(self, message: Msg) -> None:
        self.acknowledged += 1
        self._room.set()
