"""Services and hosts in tests: each lives from being ready to a sudden end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol


class Runs(Protocol):
    """A service, or a host of services."""

    async def run(self, ready: Callable[[], None]) -> Any: ...


@asynccontextmanager
async def living(service: Runs, *, may_end: bool = False) -> AsyncGenerator[asyncio.Task[Any]]:
    """The task of a service that is ready; leaving cuts it off wherever it is, as a kill would.

    Raises what ended it before it was ready, unless it `may_end` so: then the task tells.
    """
    ready = asyncio.Event()
    task = asyncio.create_task(service.run(ready.set))
    waiting = asyncio.create_task(ready.wait())
    try:
        await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
        if task.done() and not may_end:
            task.result()
        yield task
    finally:
        task.cancel()
        waiting.cancel()
        await asyncio.gather(task, return_exceptions=True)
