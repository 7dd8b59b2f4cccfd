"""A platform that only hears, and the port that it is given."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from branches.chat.leaf import ChatPort
from branches.chat.service import ChatService
from journals import Journal
from tests.living import living


class Silent:
    """A platform that only hears."""

    def __init__(self) -> None:
        self.port: asyncio.Future[ChatPort] = asyncio.get_running_loop().create_future()

    async def run(self, port: ChatPort, ready: Callable[[], None]) -> None:
        self.port.set_result(port)
        ready()
        await asyncio.Event().wait()

    async def deliver(self, message) -> None:
        return None


@asynccontextmanager
async def hearing(journal: Journal, **options: Any) -> AsyncGenerator[ChatPort]:
    """One life of a chat service, as its leaf sees it."""
    leaf = Silent()
    async with living(ChatService("chat", journal, leaf, owner="test", **options)):
        yield await leaf.port
