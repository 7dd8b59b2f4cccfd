"""Waiting for something outside: told once, from any process, before or after the waiting began."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from coven.testing import ManualClock
from journals import Journal, MemoryStore, Store
from policies import (
    Action,
    Context,
    Ledger,
    PolicyRegistry,
    Step,
    UnknownRun,
    action_result,
    replay,
    run,
    run_registry,
    signal,
)


def asking(*names: str, timeout_s: float | None = None, together: bool = False) -> PolicyRegistry:
    """A policy that waits for these events, and gives what they said."""
    registry = PolicyRegistry()

    @registry.orchestrator("asking")
    async def asking(action: Action, ctx: Context) -> list[Step]:
        waiting = [ctx.wait_for_event(name, timeout_s=timeout_s) for name in names]
        said = await asyncio.gather(*waiting) if together else [await each for each in waiting]
        return [action_result("asking", {"said": [dict(step.payload) for step in said]})]

    return registry


async def opened(store: Store) -> Journal:
    return await store.open("runs", run_registry())


async def begin(store: Store, registry: PolicyRegistry, **options: Any) -> asyncio.Task[Ledger]:
    running = run("asking", {}, registry, journal=await opened(store), run_id="r", **options)
    return asyncio.create_task(running)


async def until_waiting(store: Store, count: int = 1) -> None:
    """Until the journal says that so many events are awaited."""
    waiting = 0

    def counted(_: object) -> bool:
        nonlocal waiting
        waiting += 1
        return waiting == count

    await (await opened(store)).wait_for(counted, kinds=["EventAwaited"])


def said(ledger: Ledger) -> Any:
    return ledger[-1].payload["said"]


async def test_it_goes_on_with_what_the_signal_says(store: Store) -> None:
    running = await begin(store, asking("approval"))
    await until_waiting(store)
    await signal("r", "approval", {"approved": True}, journal=await opened(store))
    assert said(await running) == ({"approved": True},)


async def test_a_signal_that_comes_while_nobody_runs_is_found(store: Store) -> None:
    running = await begin(store, asking("approval"))
    await until_waiting(store)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await signal("r", "approval", {"approved": False}, journal=await opened(store))
    assert said(await (await begin(store, asking("approval")))) == ({"approved": False},)


async def test_each_signal_answers_one_waiting_the_oldest_first(store: Store) -> None:
    running = await begin(store, asking("a", "b", "a"))
    await until_waiting(store)
    journal = await opened(store)
    for n, name in enumerate(("b", "other", "a", "a", "a")):
        await signal("r", name, {"n": n}, journal=journal)
    ledger = await running
    assert said(ledger) == ({"n": 2}, {"n": 0}, {"n": 3})
    assert await replay("r", asking("a", "b", "a"), journal=journal) == ledger


async def test_who_waits_first_is_answered_first(store: Store) -> None:
    running = await begin(store, asking("a", "a", "a", together=True))
    await until_waiting(store, 3)
    journal = await opened(store)
    for n in range(3):
        await signal("r", "a", {"n": n}, journal=journal)
    assert said(await running) == ({"n": 0}, {"n": 1}, {"n": 2})


async def test_the_same_signal_again_is_one_signal(store: Store) -> None:
    running = await begin(store, asking("a", "a"))
    await until_waiting(store)
    journal = await opened(store)
    first = await signal("r", "a", {"n": 1}, journal=journal, id="click-1")
    assert await signal("r", "a", {"n": 1}, journal=await opened(store), id="click-1") == first
    await signal("r", "a", {"n": 2}, journal=journal, id="click-2")
    assert said(await running) == ({"n": 1}, {"n": 2})


async def test_a_signal_to_nobody_is_refused(store: Store) -> None:
    with pytest.raises(UnknownRun, match="'r'"):
        await signal("r", "a", {}, journal=await opened(store))


class LaggingLog:
    """A log whose tail brings nothing in our time."""

    def __init__(self, log: Any) -> None:
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def tail(self, after: int, hears: object) -> AsyncGenerator[list[Any]]:
        await asyncio.Event().wait()
        yield []


class TestDeadline:
    """A waiting with an end."""

    async def test_it_ends_with_a_recorded_error(self) -> None:
        clock = ManualClock()
        store = MemoryStore(clock=clock.now)
        running = await begin(store, asking("a", timeout_s=60), clock=clock)
        await clock.until_pending()
        clock.advance(60)
        ledger = await running
        (error,) = said(ledger)
        assert (error["error"], error["code"]) == (True, "timeout")
        assert "'a' within 60 s" in error["message"]
        await signal("r", "a", {"too": "late"}, journal=await opened(store))
        assert await (await begin(store, asking("a", timeout_s=60), clock=clock)) == ledger
        assert await replay("r", asking("a", timeout_s=60), journal=await opened(store)) == ledger

    async def test_it_counts_over_restarts(self) -> None:
        clock = ManualClock()
        store = MemoryStore(clock=clock.now)
        for _ in range(2):
            running = await begin(store, asking("a", timeout_s=60), clock=clock)
            await clock.until_pending()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            clock.advance(30)
        (error,) = said(await (await begin(store, asking("a", timeout_s=60), clock=clock)))
        assert error["code"] == "timeout"

    async def test_a_signal_that_was_recorded_before_its_end_counts(self) -> None:
        """The end comes when the signal stands in the journal already, but its tail has not brought it yet."""
        clock = ManualClock()
        store = MemoryStore(clock=clock.now)
        lagging: Any = LaggingLog((await opened(store)).log)
        journal = Journal(lagging, run_registry(), clock=clock.now)
        registry = asking("a", timeout_s=60)
        running = asyncio.create_task(run("asking", {}, registry, journal=journal, run_id="r", clock=clock))
        await clock.until_pending()
        await signal("r", "a", {"in": "time"}, journal=await opened(store))
        clock.advance(60)
        assert said(await running) == ({"in": "time"},)

    async def test_without_an_end_it_waits_as_long_as_it_takes(self) -> None:
        clock = ManualClock()
        store = MemoryStore(clock=clock.now)
        running = await begin(store, asking("a"), clock=clock)
        await until_waiting(store)
        clock.advance(10_000_000)
        assert clock.pending == 0
        await signal("r", "a", {"at": "last"}, journal=await opened(store))
        assert said(await running) == ({"at": "last"},)
