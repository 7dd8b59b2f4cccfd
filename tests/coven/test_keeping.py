"""Services that requests need are kept by one process, and let go by it when it stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from coven.keeping import Keeping, parts_of
from coven.supervisor import TakenOver
from journals import ClaimLost, MemoryStore


async def test_who_stops_lets_a_service_go_also_when_that_loses_its_work_in_the_same_moment() -> None:
    ran = 0

    async def run(names: Sequence[str], ready: Callable[[], None]) -> None:
        nonlocal ran
        ran += 1
        ready()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise TakenOver("agents", ClaimLost("agents", "session 's'", "us", 7)) from None

    keeping = Keeping(MemoryStore(), "here:1:a", run)
    keeper = asyncio.create_task(keeping.keep(parts_of(["agents"], (), None)))
    await keeping.ready.wait()
    keeper.cancel()
    with pytest.raises(asyncio.CancelledError):
        await keeper
    assert ran == 1
