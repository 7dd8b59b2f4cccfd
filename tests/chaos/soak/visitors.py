"""People who ask over HTTP. Some go away in the middle; all come again with the same key until they have an answer."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random
from typing import Any

import msgspec

from tests.chaos.soak.world import Said

_COMES_AGAIN_S = 0.1
_WAITS_S = 10.0


class Visitors:
    """They come to the door at a port of this machine. `answers` are all that they were given, by the prompt's id."""

    def __init__(self, random: Random, port: int) -> None:
        self._random, self._port = random, port
        self.asked: list[Said] = []
        self.answers: dict[str, list[dict[str, Any]]] = {}
        self._coming: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<Visitors {len(self.asked)} asked, {len(self._coming)} wait>"

    def ask(self, session: str, text: str) -> None:
        """Somebody asks for something in a session."""
        said = Said(f"v{len(self.asked)}", session, text)
        self.asked.append(said)
        coming = asyncio.create_task(self._come(said))
        self._coming.add(coming)
        coming.add_done_callback(self._coming.discard)

    async def answered(self) -> None:
        """Wait until all have an answer."""
        while self._coming:
            await asyncio.wait(self._coming)

    def close(self) -> None:
        """All go away."""
        for coming in self._coming:
            coming.cancel()

    async def _come(self, said: Said) -> None:
        while said.id not in self.answers:
            with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
                async with asyncio.timeout(_WAITS_S if self._random.random() < 0.7 else _COMES_AGAIN_S):
                    await self._visit(said)
            await asyncio.sleep(_COMES_AGAIN_S)

    async def _visit(self, said: Said) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            body = msgspec.json.encode({"intent": said.text})
            head = (
                f"POST /sessions/{said.conversation}/prompts HTTP/1.1",
                "Host: 127.0.0.1",
                "Content-Type: application/json",
                f"Content-Length: {len(body)}",
                f"Idempotency-Key: {said.id}",
                "Connection: close",
            )
            writer.write("\r\n".join((*head, "", "")).encode() + body)
            told = await reader.readuntil(b"\r\n\r\n")
            if told.split(maxsplit=2)[1] == b"200":
                answer = msgspec.json.decode(await reader.read())
                self.answers.setdefault(said.id, []).append(answer)
        finally:
            writer.close()
