"""A runner that stood still, was taken for dead, and wakes up: it does nothing more, whatever it was about to do."""

from __future__ import annotations

import asyncio
from typing import Any

from coven.testing import EagerClock
from journals import ClaimLost, Journal, MemoryStore
from policies import Ledger, read_ledger, run, run_registry
from tests.policies.expedition import PAYLOAD, check_touches, expedition, same_but_in_doubt

Touches = list[tuple[str, str, int]]


class PausingLog:
    """Stands still before its n-th write until it is let go on."""

    def __init__(self, log: Any, at: int) -> None:
        self._log, self._at = log, at
        self.writes = 0
        self.paused, self.go_on = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def append(self, *args: Any) -> int:
        return await self._write(self._log.append, args)

    async def append_all(self, *args: Any) -> int:
        return await self._write(self._log.append_all, args)

    async def _write(self, write: Any, args: Any) -> int:
        self.writes += 1
        if self.writes == self._at:
            self.paused.set()
            await self.go_on.wait()
        return await write(*args)


async def performed(journal: Journal, clock: EagerClock, touches: Touches) -> Ledger:
    registry = expedition(lambda name, ctx: touches.append((name, ctx.id, ctx.attempt)))
    return await run("expedition", PAYLOAD, registry, journal=journal, run_id="r", clock=clock)


async def pausing(store: MemoryStore, clock: EagerClock, at: int) -> tuple[PausingLog, Journal]:
    log: Any = PausingLog((await store.open("runs", run_registry())).log, at)
    return log, Journal(log, run_registry(), clock=clock.now)


async def test_a_zombie_at_every_write() -> None:
    clock = EagerClock()
    log, journal = await pausing(MemoryStore(clock=clock.now), clock, 0)
    expected = await performed(journal, clock, [])
    writes, refused = log.writes, 0
    for at in range(1, writes + 1):
        clock, touches = EagerClock(), Touches()
        store = MemoryStore(clock=clock.now)
        log, journal = await pausing(store, clock, at)
        zombie = asyncio.create_task(performed(journal, clock, touches))
        await log.paused.wait()
        ledger = await performed(await store.open("runs", run_registry()), clock, touches)
        done = list(touches)
        log.go_on.set()
        (woken,) = await asyncio.gather(zombie, return_exceptions=True)
        if isinstance(woken, ClaimLost):
            refused += 1
        else:
            assert woken == ledger
        assert touches == done, f"the zombie of write {at} did something"
        assert await read_ledger("r", journal=await store.open("runs", run_registry())) == ledger
        assert same_but_in_doubt(ledger, expected) <= 5
        check_touches(touches)
    assert refused == writes - 2, "all but the two that had not claimed the run yet"
