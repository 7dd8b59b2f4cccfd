"""A crystal that writes an answer piece by piece, and half-way waits until its beginning can be read."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from branches.agents.crystal import CrystalRequest, CrystalResponse, Usage


class StreamingCrystal:
    def __init__(self, options: object) -> None:
        pass

    async def invoke(self, request: CrystalRequest, on_text: Callable[[str], None] | None = None) -> CrystalResponse:
        pieces = ("I have heard ", "this. ", f"You said: {request.messages[-1].content}. ", "That is all.")
        for number, piece in enumerate(pieces):
            if on_text is not None:
                on_text(piece)
            if number == 1:
                await _until_it_can_be_read()
        return CrystalResponse(content="".join(pieces), usage=Usage(prompt=10, completion=9))


async def _until_it_can_be_read() -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(os.environ["PROBE_BARRIER"]))
    await reader.read()
    writer.close()
