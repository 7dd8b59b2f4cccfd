"""The protocol's lines on standard streams, which nothing else may touch."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
from typing import Any, Final, cast

from journals import JournalError

LINE_LIMIT: Final = 16 * 1024 * 1024
_PARSE_ERROR: Final = {"code": -32700, "message": f"a message is one line of JSON in UTF-8, at most {LINE_LIMIT} bytes"}
_NO_REQUEST: Final = {"code": -32600, "message": "a message is an object of JSON-RPC 2.0"}


class Lines:
    """JSON-RPC messages, one a line, as `acp` wants a transport. What is no message is answered with an error.

    What is sent is ASCII, so that no text can break it.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._sending = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<Lines {'closing' if self._writer.is_closing() else 'open'}>"

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None at the end."""
        while True:
            line = await self._line()
            if line is None:
                return None
            if not line.strip():
                continue
            try:
                message: Any = json.loads(line.decode())
            except (ValueError, RecursionError):
                await self._complain(_PARSE_ERROR)
                continue
            if isinstance(message, dict) and isinstance(cast("dict[str, Any]", message).get("method", ""), str):
                return cast("dict[str, Any]", message)
            await self._complain(_NO_REQUEST)

    async def send(self, message: dict[str, Any]) -> None:
        """Write a message; once closed, nobody reads it. Raises `ConnectionError` when nobody reads any more."""
        async with self._sending:
            if self._writer.is_closing():
                return
            self._writer.write(json.dumps(message).encode() + b"\n")
            await self._writer.drain()

    async def close(self) -> None:
        """Send no more."""
        self._writer.close()

    async def _line(self) -> bytes | None:
        """The next line; an empty one in place of one that is too long, of which the asker hears."""
        dropped = 0
        while True:
            try:
                line = await self._reader.readuntil(b"\n")
            except asyncio.IncompleteReadError as end:
                return end.partial or None
            except asyncio.LimitOverrunError as overrun:
                dropped += len(await self._reader.readexactly(overrun.consumed or 1))
                continue
            if dropped:
                await self._complain(_PARSE_ERROR)
                return b""
            return line

    async def _complain(self, error: dict[str, Any]) -> None:
        await self.send({"jsonrpc": "2.0", "id": None, "error": error})


async def standard_streams() -> Lines:
    """The standard streams for the protocol alone: whoever else prints, prints to standard error from now on.

    Raises `NoPipe` when they are not what a client gives.
    """
    for number, name in enumerate(("input", "output")):
        mode = os.fstat(number).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(number)):
            raise NoPipe(f"its standard {name} is neither pipe nor socket")
    loop = asyncio.get_running_loop()
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    sys.stdout.flush()
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    reader = asyncio.StreamReader(limit=LINE_LIMIT)
    protocol = asyncio.StreamReaderProtocol(reader)
    await loop.connect_read_pipe(lambda: protocol, os.fdopen(incoming, "rb", buffering=0))
    transport, flow = await loop.connect_write_pipe(
        lambda: asyncio.streams.FlowControlMixin(loop=loop), os.fdopen(outgoing, "wb", buffering=0)
    )
    writer = asyncio.StreamWriter(transport, flow, None, loop)
    return Lines(reader, writer)


class NoPipe(JournalError):
    """Standard input or output is a file, or closed."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"`coven acp` is started by an editor, which talks to it through pipes, but {reason}")
