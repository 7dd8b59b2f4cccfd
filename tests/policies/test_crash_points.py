"""Killed at every journal operation, a run ends in the same ledger: no effect silently twice, every doubt said."""

from __future__ import annotations

from contextlib import suppress

import pytest

from coven.testing import EagerClock
from journals import MemoryStore
from policies import Ledger, read_ledger, replay, run
from tests.policies.bench import Killed
from tests.policies.dying import Process
from tests.policies.expedition import PAYLOAD, check_touches, expedition, same_but_in_doubt

Touches = list[tuple[str, str, int]]


async def performed(process: Process, clock: EagerClock) -> Ledger:
    registry = expedition(process.touch)
    return await run("expedition", PAYLOAD, registry, journal=process.journal, run_id="r", clock=clock)


async def undisturbed() -> tuple[Ledger, int]:
    clock, touches = EagerClock(), Touches()
    process = await Process.start(MemoryStore(clock=clock.now), touches, clock=clock.now)
    ledger = await performed(process, clock)
    check_touches(touches)
    calls = [step for step in ledger if step.type == "action_call"]
    assert len(calls) == 1 + 1 + 5 * 6 + 1 + 1
    return ledger, process.writes


@pytest.mark.parametrize("when", ["before", "after"])
async def test_killed_at_every_write(when: str) -> None:
    expected, writes = await undisturbed()
    doubts = 0
    for at in range(1, writes + 1):
        clock, touches = EagerClock(), Touches()
        store = MemoryStore(clock=clock.now)
        dying = await Process.start(store, touches, clock=clock.now, at=at, when=when)
        with pytest.raises(Killed):
            await performed(dying, clock)
        second = await Process.start(store, touches, clock=clock.now)
        ledger = await performed(second, clock)
        in_doubt = same_but_in_doubt(ledger, expected)
        assert in_doubt <= 5, "no more than what was under way side by side"
        doubts += in_doubt
        check_touches(touches)
        third = await Process.start(store, touches, clock=clock.now)
        done = list(touches)
        assert await performed(third, clock) == ledger
        assert await replay("r", expedition(third.touch), journal=third.journal) == ledger
        assert touches == done
        assert third.writes == 0
    assert doubts > 0


async def test_killed_again_and_again() -> None:
    """Each process gets a little further: it dies at its sixth write, until one gets to the end."""
    expected, _ = await undisturbed()
    clock, touches = EagerClock(), Touches()
    store = MemoryStore(clock=clock.now)
    lives = 0
    ledger = None
    while ledger is None:
        lives += 1
        process = await Process.start(store, touches, clock=clock.now, at=6, when="after")
        with suppress(Killed):
            ledger = await performed(process, clock)
    assert lives > 10
    same_but_in_doubt(ledger, expected)
    check_touches(touches)


async def test_a_run_that_was_cut_off_can_be_looked_at() -> None:
    expected, writes = await undisturbed()
    clock, touches = EagerClock(), Touches()
    store = MemoryStore(clock=clock.now)
    dying = await Process.start(store, touches, clock=clock.now, at=writes // 2, when="after")
    with pytest.raises(Killed):
        await performed(dying, clock)
    looking = await Process.start(store, touches, clock=clock.now)
    so_far = await read_ledger("r", journal=looking.journal)
    assert 10 < len(so_far) < len(expected)
    assert set(so_far) <= set(expected)
    assert await replay("r", expedition(looking.touch), journal=looking.journal) == so_far
    assert looking.writes == 0
