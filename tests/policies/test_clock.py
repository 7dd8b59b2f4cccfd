"""The machine's clock: it rings at a time, however far away, unless it is told not to."""

from __future__ import annotations

import asyncio

import pytest

from coven.testing import EagerClock
from policies import SystemClock


@pytest.mark.parametrize("look_again_s", [60.0, 0.002], ids=["near", "far"])
async def test_it_rings_at_the_time_and_not_before(look_again_s: float) -> None:
    clock, rung = SystemClock(look_again_s), asyncio.Event()
    when = clock.now() + 0.01
    clock.call_at(when, rung.set)
    await rung.wait()
    assert clock.now() > when - 0.005


@pytest.mark.parametrize("look_again_s", [60.0, 0.002], ids=["near", "far"])
async def test_an_alarm_that_was_cancelled_does_not_ring(look_again_s: float) -> None:
    clock, rung, later = SystemClock(look_again_s), list[str](), asyncio.Event()
    clock.call_at(clock.now() + 0.01, lambda: rung.append("no")).cancel()
    clock.call_at(clock.now() + 0.02, later.set)
    await later.wait()
    assert rung == []


async def test_what_is_past_rings_soon() -> None:
    rung = asyncio.Event()
    SystemClock().call_at(0, rung.set)
    await rung.wait()


async def test_an_eager_clock_jumps_from_alarm_to_alarm() -> None:
    clock, rung, last = EagerClock(100), list[float](), asyncio.Event()
    for when in (130, 110, 120):
        clock.call_at(when, lambda: rung.append(clock.now()))
    clock.call_at(115, lambda: rung.append(-1)).cancel()
    clock.call_at(140, last.set)
    await last.wait()
    assert rung == [110, 120, 130]
    assert clock.now() == 140
    assert repr(clock) == "<EagerClock 140>"
