"""Effects that may fail: attempts are journaled, and only what the effect declared is tried again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coven.testing import EagerClock, ManualClock
from journals import Journal, MemoryStore
from policies import (
    Action,
    Context,
    Ledger,
    PolicyRegistry,
    Retry,
    Step,
    action_result,
    replay,
    resume,
    run,
    run_registry,
)


class Flaky:
    """An effect that raises what a script has, then answers."""

    def __init__(self, *errors: Exception, **how: Any) -> None:
        self.attempts: list[tuple[str, int]] = []
        self.errors = list(errors)
        self.registry = PolicyRegistry()
        self.store: MemoryStore | None = None

        @self.registry.effect("flaky", retry=Retry(on=(ConnectionError,), **how))
        async def flaky(action: Action, ctx: Context) -> list[Step]:
            self.attempts.append((ctx.id, ctx.attempt))
            if self.errors:
                raise self.errors.pop(0)
            return [action_result("flaky", {"attempt": ctx.attempt})]

        @self.registry.orchestrator("root")
        async def root(action: Action, ctx: Context) -> list[Step]:
            return [(await ctx.call(Action("flaky")))[0], action_result("root", {"steps": len(await ctx.get_ledger())})]

    async def journal(self, clock: Any) -> Journal:
        self.store = self.store or MemoryStore(clock=clock.now)
        return await self.store.open("runs", run_registry())

    async def run(self, clock: Any) -> Ledger:
        return await run("root", {}, self.registry, journal=await self.journal(clock), run_id="r", clock=clock)


async def kinds(journal: Journal) -> list[str]:
    return [record.kind async for record in journal.read()]


async def test_a_declared_failure_is_tried_again_and_the_attempts_are_journaled() -> None:
    clock, flaky = EagerClock(), Flaky(ConnectionError("reset"), ConnectionResetError("again"))
    ledger = await flaky.run(clock)
    assert [attempt for _, attempt in flaky.attempts] == [1, 2, 3]
    assert len({id for id, _ in flaky.attempts}) == 1
    journal = await flaky.journal(clock)
    assert await kinds(journal) == [
        "RunStarted",
        "PolicyCalled",
        *("AttemptFailed", "AttemptBegan") * 2,
        "PolicyReturned",
        "PolicyReturned",
    ]
    failed: Any = [record.entry async for record in journal.read(kinds=["AttemptFailed"])]
    assert [(each.attempt, each.error, each.message) for each in failed] == [
        (1, "ConnectionError", "reset"),
        (2, "ConnectionResetError", "again"),
    ]
    assert ledger[-1].payload == {"steps": 2}, "attempts are no steps"
    assert await replay("r", flaky.registry, journal=journal) == ledger


async def test_when_all_attempts_have_failed_the_failure_is_the_outcome() -> None:
    flaky = Flaky(*(ConnectionError(f"number {n}") for n in range(9)), attempts=3)
    ledger = await flaky.run(EagerClock())
    (failed, _) = ledger[-2:]
    assert failed.is_error
    assert failed.payload["code"] == "failed"
    assert failed.payload["message"] == "ConnectionError: number 2 (after 3 attempts)"
    assert len(flaky.attempts) == 3


async def test_any_other_failure_fails_the_run_and_leaves_the_ledger_safe() -> None:
    clock, flaky = EagerClock(), Flaky(ConnectionError("reset"), LookupError("a bug"))
    with pytest.raises(LookupError):
        await flaky.run(clock)
    assert (await kinds(await flaky.journal(clock)))[-1] == "AttemptBegan"
    ledger = await flaky.run(clock)
    assert ledger[-2].payload["code"] == "in_doubt"


async def test_the_pause_is_waited_on_the_clock_and_survives_a_restart() -> None:
    clock = ManualClock()
    flaky = Flaky(ConnectionError("reset"), wait_initial_s=10, wait_max_s=10)
    running = asyncio.create_task(flaky.run(clock))
    await clock.until_pending()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    clock.advance(6)
    again = asyncio.create_task(resume("r", flaky.registry, journal=await flaky.journal(clock), clock=clock))
    await clock.until_pending()
    assert len(flaky.attempts) == 1
    clock.advance(4)
    assert (await again)[-2].payload == {"attempt": 2}
    assert [attempt for _, attempt in flaky.attempts] == [1, 2]


def test_pauses_grow_up_to_a_limit_and_are_drawn_from_the_call() -> None:
    retry = Retry(on=(OSError,), wait_initial_s=1, wait_max_s=8, wait_jitter_s=0)
    assert [retry.pause("call", attempt) for attempt in (1, 2, 3, 4, 5, 1000)] == [1, 2, 4, 8, 8, 8]
    jittered = Retry(on=(OSError,), wait_initial_s=1, wait_jitter_s=1)
    pauses = [jittered.pause(f"call {n}", 1) for n in range(100)]
    assert all(1 <= pause < 2 for pause in pauses)
    assert len(set(pauses)) == 100
    assert pauses == [jittered.pause(f"call {n}", 1) for n in range(100)]
    with pytest.raises(ValueError, match="at least once"):
        Retry(on=(OSError,), attempts=0)


async def test_the_text_of_a_failure_may_hold_anything() -> None:
    ledger = await Flaky(ConnectionError("\ud800 broken"), attempts=1).run(EagerClock())
    assert ledger[-2].payload["message"] == "ConnectionError: ? broken (after one attempt)"
