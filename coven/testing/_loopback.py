"""What every service on a loopback port has: its address, a test that waits for it, and what goes wrong with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web


class Loopback:
    """One HTTP server. `hold` is awaited with the kind of each request that is carried out, before its answer."""

    def __init__(self) -> None:
        self.base = ""
        """The address, while it runs."""
        self.changed = asyncio.Condition()
        self.hold: Callable[[str], Awaitable[None]] | None = None
        self._broken: dict[str, int] = {}
        self._runner: web.AppRunner | None = None

    async def listen(self, app: web.Application) -> None:
        """Serve on a free port."""
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.base = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def close(self) -> None:
        """Serve no more."""
        assert self._runner is not None
        await self._runner.cleanup()

    async def until(self, condition: Callable[[], Any], timeout: float = 20.0) -> Any:
        """Wait until this holds, looking whenever something has happened; gives what it gave. Raises `TimeoutError`."""
        async with asyncio.timeout(timeout), self.changed:
            while not (found := condition()):
                await self.changed.wait()
            return found

    async def note(self) -> None:
        """Something has happened."""
        async with self.changed:
            self.changed.notify_all()

    def break_connections(self, kind: str, times: int) -> None:
        """So many requests of a kind are carried out, and their connection breaks before the answer."""
        self._broken[kind] = times

    async def answering(self, kind: str, request: web.Request) -> None:
        """A request is carried out, and would be answered now."""
        if self.hold is not None:
            await self.hold(kind)
        if self._broken.get(kind, 0) > 0:
            self._broken[kind] -= 1
            assert request.transport is not None
            request.transport.close()
        await self.note()
