"""The wire between one service and the server: it can be cut, or swallow what the server says."""

from __future__ import annotations

import asyncio
from contextlib import suppress

_BYTES = 64 * 1024


class Wire:
    """Carries connections to a port of this machine."""

    def __init__(self, port: int) -> None:
        """`port` is where the server listens."""
        self._to = port
        self._ends: set[asyncio.StreamWriter] = set()
        self._swallowing = False
        self._server: asyncio.Server | None = None

    def __repr__(self) -> str:
        return f"<Wire to {self._to}: {len(self._ends) // 2} connections{', swallowing' if self._swallowing else ''}>"

    async def open(self) -> None:
        """Begin to listen."""
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)

    @property
    def port(self) -> int:
        """Where the service finds it."""
        assert self._server is not None
        return self._server.sockets[0].getsockname()[1]

    def swallow(self) -> None:
        """What the server says from now on arrives nowhere, and what it is told is done: until the wire is cut."""
        self._swallowing = True

    def cut(self) -> None:
        """Cut all connections, whatever is under way on them; new ones are carried."""
        self._swallowing = False
        for end in list(self._ends):
            end.transport.abort()

    def close(self) -> None:
        """Cut them, and carry no new ones."""
        if self._server is not None:
            self._server.close()
        self.cut()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            writer.transport.abort()
            return
        ends = {writer, back}
        self._ends |= ends
        ways = [
            asyncio.create_task(self._forward(reader, back, may_be_swallowed=False)),
            asyncio.create_task(self._forward(there, writer, may_be_swallowed=True)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._ends -= ends
            for end in ends:
                end.transport.abort()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, may_be_swallowed: bool
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(_BYTES):
                if not (may_be_swallowed and self._swallowing):
                    writer.write(data)
                    await writer.drain()
