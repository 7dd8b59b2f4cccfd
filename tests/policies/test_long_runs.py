"""Long runs: replaying one makes no call, and reads each of its records a fixed number of times."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from coven.testing import EagerClock
from journals import Journal, MemoryStore
from policies import (
    Action,
    Context,
    PolicyRegistry,
    Step,
    action_call,
    action_result,
    invoke_action,
    loop_wrapper,
    replay,
    resume,
    run,
    run_registry,
    text,
)
from tests.policies.bench import Killed
from tests.policies.dying import Process


def counting(calls: int) -> tuple[PolicyRegistry, Counter[str]]:
    """A policy that makes so many calls, and how often each effect ran."""
    registry, ran = PolicyRegistry(), Counter[str]()

    @registry.effect("add", idempotent=True)
    async def add(action: Action, ctx: Context) -> list[Step]:
        ran["add"] += 1
        return [action_result("add", {"n": action.payload["n"] + 1})]

    @registry.orchestrator("count")
    async def count(action: Action, ctx: Context) -> list[Step]:
        n = 0
        for _ in range(calls):
            (step,) = await ctx.call(Action("add", {"n": n}))
            n = step.payload["n"]
        return [action_result("count", {"n": n})]

    @registry.effect("decide")
    async def decide(action: Action, ctx: Context) -> list[Step]:
        ran["decide"] += 1
        if ran["decide"] == calls:
            return [text("model", "done")]
        return [action_call("model", Action("add", {"n": 1}))]

    @registry.orchestrator("loop")
    async def loop(action: Action, ctx: Context) -> list[Step]:
        decided = Action("decide", {}, frozenset({"add"}))
        steps = await ctx.call(decided, [loop_wrapper(max_turns=calls), invoke_action()])
        return [action_result("loop", {"steps": len(steps)})]

    return registry, ran


class CountingLog:
    """A log that counts what is read from it and written to it."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self.read_messages = self.writes = 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("append"):
            self.writes += 1
        return getattr(self._log, name)

    async def read(self, *args: Any) -> AsyncGenerator[Any]:
        async for group in self._log.read(*args):
            self.read_messages += len(group)
            yield group


@pytest.mark.parametrize("policy", ["count", "loop"])
async def test_replaying_ten_thousand_steps_makes_no_call_and_reads_each_record_once(policy: str) -> None:
    store = MemoryStore()
    calls = 5_000 if policy == "count" else 2_000
    registry, ran = counting(calls)
    ledger = await run(policy, {}, registry, journal=await store.open("runs", run_registry()), run_id="r")
    assert len(ledger) >= 10_000
    ran.clear()
    for look in (replay, resume):
        log: Any = CountingLog((await store.open("runs", run_registry())).log)
        assert await look("r", registry, journal=Journal(log, run_registry())) == ledger
        assert log.read_messages == await log.end()
        assert log.writes == 0
    assert ran == Counter()


async def test_going_on_with_a_long_run_reads_each_record_twice_and_does_only_what_is_left() -> None:
    clock, calls = EagerClock(), 1_000
    store, registry, ran = MemoryStore(clock=clock.now), *counting(calls)
    writes = 2 + 2 * calls + 1
    dying = await Process.start(store, [], clock=clock.now, at=writes - 10)
    with pytest.raises(Killed):
        await run("count", {}, registry, journal=dying.journal, run_id="r", clock=clock)
    ran.clear()
    log: Any = CountingLog((await store.open("runs", run_registry())).log)
    ledger = await resume("r", registry, journal=Journal(log, run_registry(), clock=clock.now), clock=clock)
    assert ledger[-1].payload == {"n": calls}
    assert ran["add"] == 5
    assert log.read_messages < 2.1 * await log.end(), "once for the policy, once for the ids that a writer knows"
