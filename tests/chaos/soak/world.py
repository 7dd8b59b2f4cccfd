"""The world outside a coven under load: what people say to it, what it does there, and where it is held meanwhile."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random
from typing import Any

import msgspec


class Said(msgspec.Struct, frozen=True):
    """Something that a person has said. The chat hears it again until it has taken it."""

    id: str
    conversation: str
    text: str

    @property
    def label(self) -> str:
        """What answers to it begin with."""
        return self.text.partition(": ")[0]

    @property
    def is_prompt(self) -> bool:
        """Whether it is to be answered."""
        return not self.text.startswith("/")


class Told(msgspec.Struct, frozen=True):
    """Something that people were told, by the id of the message."""

    id: str
    session: str
    text: str


class World:
    """Serves the leaves of `outside.py`. Nothing kills it, so what it has seen is what has happened.

    `holds` is the share of meetings that are held until `release`, by chance; `fails` that of requests to the crystal
    that fail in a way that passes.
    """

    def __init__(self, random: Random, *, holds: float, fails: float) -> None:
        self._random, self._holds, self._fails = random, holds, fails
        self.said: list[Said] = []
        self.taken: set[str] = set()
        self.told: list[Told] = []
        self.seen: list[dict[str, Any]] = []
        self._chats: set[asyncio.StreamWriter] = set()
        self._held: list[asyncio.Event] = []
        self._happened = asyncio.Condition()
        self._server: asyncio.Server | None = None

    def __repr__(self) -> str:
        return f"<World {len(self.said)} said, {len(self.taken)} taken, {len(self.told)} told, {len(self._held)} held>"

    async def open(self) -> None:
        """Begin to listen."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1024 * 1024)

    @property
    def port(self) -> int:
        """Where the leaves find it."""
        assert self._server is not None
        return self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Let everybody go."""
        self.release()
        if self._server is not None:
            self._server.close()

    def say(self, conversation: str, text: str) -> Said:
        """A person says something. Every chat hears of it that is there, or comes before it is taken."""
        said = Said(f"m{len(self.said)}", conversation, text)
        self.said.append(said)
        for chat in list(self._chats):
            chat.write(msgspec.json.encode(said) + b"\n")
        return said

    def release(self, number: int | None = None) -> None:
        """Let so many go on that are held, those that wait longest first; all of them, and hold nobody any more."""
        if number is None:
            self._holds = 0.0
            number = len(self._held)
        for held in self._held[:number]:
            held.set()
        del self._held[:number]

    async def happens(self, number: int, at_most: float) -> None:
        """Wait until so many more things have happened, or for as many seconds: where all is killed nothing does."""
        goal = len(self.seen) + number
        with suppress(TimeoutError):
            async with asyncio.timeout(at_most), self._happened:
                await self._happened.wait_for(lambda: len(self.seen) >= goal)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            first = msgspec.json.decode(await reader.readline())
            if first["at"] == "chat":
                await self._hear(reader, writer)
            else:
                await self._meet(first)
                if first["at"] == "ask" and self._random.random() < self._fails:
                    writer.write(b"fails")
        except (ConnectionError, msgspec.DecodeError):
            pass  # killed in the middle
        finally:
            writer.close()

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._chats.add(writer)
        try:
            for said in self.said:
                if said.id not in self.taken:
                    writer.write(msgspec.json.encode(said) + b"\n")
            async for line in reader:
                self.taken.add(msgspec.json.decode(line)["taken"])
                await self._see({"at": "taken"})
        finally:
            self._chats.discard(writer)

    async def _meet(self, what: dict[str, Any]) -> None:
        if what["at"] == "deliver":
            self.told.append(Told(what["id"], what["session"], what["text"]))
        await self._see(what)
        if self._random.random() < self._holds:
            held = asyncio.Event()
            self._held.append(held)
            await held.wait()

    async def _see(self, what: dict[str, Any]) -> None:
        async with self._happened:
            self.seen.append(what)
            self._happened.notify_all()
