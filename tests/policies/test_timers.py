"""Time that passes, also while nobody runs."""

from __future__ import annotations

import asyncio

import pytest

from coven.testing import ManualClock
from journals import MemoryStore
from policies import (
    Action,
    Context,
    EffectCalls,
    Ledger,
    NotDurable,
    PolicyRegistry,
    Retry,
    Step,
    replay,
    run,
    run_registry,
    text,
)
from tests.policies.bench import Bench


class Sleeper:
    """A policy that sleeps once, in a world whose time the test moves."""

    def __init__(self, *, seconds: float | None = None, until: float | None = None) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(clock=self.clock.now)
        self.registry = PolicyRegistry()

        @self.registry.orchestrator("sleeper")
        async def sleeper(action: Action, ctx: Context) -> list[Step]:
            before = ctx.now()
            if seconds is not None:
                await ctx.sleep(seconds)
            if until is not None:
                await ctx.sleep_until(until)
            return [text("sleeper", f"{ctx.now() - before:g}")]

    async def begin(self) -> asyncio.Task[Ledger]:
        """Run it, as a process of its own does."""
        journal = await self.store.open("runs", run_registry())
        return asyncio.create_task(run("sleeper", {}, self.registry, journal=journal, run_id="r", clock=self.clock))

    async def stop(self, running: asyncio.Task[Ledger]) -> None:
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


async def test_it_goes_on_when_the_time_has_passed() -> None:
    sleeper = Sleeper(seconds=60)
    running = await sleeper.begin()
    await sleeper.clock.until_pending()
    sleeper.clock.advance(59)
    await asyncio.sleep(0)
    assert not running.done()
    sleeper.clock.advance(1)
    assert (await running)[-1].payload == {"text": "60"}
    assert sleeper.clock.pending == 0


async def test_what_is_left_of_the_time_is_waited_after_a_restart() -> None:
    sleeper = Sleeper(seconds=60)
    running = await sleeper.begin()
    await sleeper.clock.until_pending()
    await sleeper.stop(running)
    assert sleeper.clock.pending == 0
    sleeper.clock.advance(40)
    running = await sleeper.begin()
    await sleeper.clock.until_pending()
    sleeper.clock.advance(20)
    assert (await running)[-1].payload == {"text": "60"}


async def test_time_that_passed_while_nobody_ran_is_not_waited_again() -> None:
    sleeper = Sleeper(seconds=60)
    running = await sleeper.begin()
    await sleeper.clock.until_pending()
    await sleeper.stop(running)
    sleeper.clock.advance(100_000)
    ledger = await (await sleeper.begin())
    assert ledger[-1].payload == {"text": "100000"}
    journal = await sleeper.store.open("runs", run_registry())
    kinds = [record.kind async for record in journal.read()]
    assert kinds == ["RunStarted", "TimerSet", "TimerFired", "PolicyReturned"]
    assert await replay("r", sleeper.registry, journal=journal) == ledger


async def test_a_time_can_be_named() -> None:
    sleeper = Sleeper(until=1_000_100)
    running = await sleeper.begin()
    await sleeper.clock.until_pending()
    sleeper.clock.advance(100)
    assert (await running)[-1].payload == {"text": "100"}
    assert (await (await Sleeper(until=5).begin()))[-1].payload == {"text": "0"}


async def test_timers_run_side_by_side() -> None:
    clock, registry = ManualClock(), PolicyRegistry()
    woken: list[int] = []
    rung = asyncio.Event()

    @registry.orchestrator("alarms")
    async def alarms(action: Action, ctx: Context) -> list[Step]:
        async def alarm(seconds: int) -> None:
            await ctx.sleep(seconds)
            woken.append(seconds)
            rung.set()

        await asyncio.gather(alarm(30), alarm(10), alarm(20))
        return []

    running = asyncio.create_task(run("alarms", {}, registry, clock=clock))
    await clock.until_pending(3)
    for _ in range(3):
        rung.clear()
        clock.advance(10)
        await rung.wait()
    await running
    assert woken == [10, 20, 30]


async def test_a_journal_without_entries_for_timers_says_so() -> None:
    bench, registry = Bench(), PolicyRegistry()

    @registry.orchestrator("root")
    async def root(action: Action, ctx: Context) -> list[Step]:
        await ctx.sleep(1)
        return []

    with pytest.raises(NotDurable, match="DurableCodec"):
        await bench.run(registry)
    assert await bench.history() == []


async def test_a_journal_without_entries_for_failed_attempts_says_so() -> None:
    bench, registry = Bench(), PolicyRegistry()

    @registry.effect("flaky", retry=Retry(on=(OSError,)))
    async def flaky(action: Action, ctx: Context) -> list[Step]:
        raise OSError

    @registry.orchestrator("root")
    async def root(action: Action, ctx: Context) -> list[Step]:
        return await ctx.call(Action("flaky", {}))

    with pytest.raises(NotDurable, match="RetryCodec"):
        await bench.run(registry)
    assert await bench.history() == []


async def test_an_effect_has_no_timers() -> None:
    registry = PolicyRegistry()

    @registry.effect("effect")
    async def effect(action: Action, ctx: Context) -> list[Step]:
        await ctx.sleep(1)
        return []

    with pytest.raises(EffectCalls, match="an effect sleeps"):
        await run("effect", {}, registry)
