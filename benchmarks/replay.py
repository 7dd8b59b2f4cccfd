"""Replaying a finished run: what a step costs in a run of 10,000 beside one of 1,000, and what nobody has to do."""

from __future__ import annotations

import gc
import time
from collections.abc import Awaitable, Callable

import policies
from benchmarks.harness import Profile, Result, compare, fresh_store, running_server, take_turns
from journals import Journal, MemoryStore
from policies import Action, Context, PolicyRegistry, Step, action_result, run_registry

_SHORT, _LONG = 1_000, 10_000
_LINEAR = 1.5  # the garbage collector looks at more and more that lives; without it the ratio is 1.0
_ROUNDS = 5


async def run(profile: Profile, scale: float) -> list[Result]:
    """Steps of a replay, in microseconds of CPU each, over both stores."""
    short, long = int(_SHORT * scale), int(_LONG * scale)
    async with running_server(profile) as server, fresh_store(server) as store, MemoryStore() as memory:
        results: list[Result] = []
        for where, journal in (
            ("JetStream", await store.open("runs", run_registry())),
            ("memory", await memory.open("runs", run_registry())),
        ):
            figures = await take_turns(
                {
                    "coven": await _replaying(journal, long),
                    f"a run of {short:,} steps": await _replaying(journal, short),
                },
                _ROUNDS,
            )
            wanted = {f"a run of {short:,} steps": _LINEAR}
            results += compare(
                f"a step of a replay of {long:,}, {where}", profile, "CPU microseconds", figures, wanted, "lower"
            )
    return results


async def _replaying(journal: Journal, steps: int) -> Callable[[], Awaitable[float]]:
    """Finish a run of so many steps, a call and its result being two; gives what replays it and times a step."""
    registry, run_id, ran = PolicyRegistry(), f"run{steps}", 0

    @registry.effect("add")
    async def add(action: Action, ctx: Context) -> list[Step]:
        nonlocal ran
        ran += 1
        return [action_result("add", {"n": action.payload["n"] + 1})]

    @registry.orchestrator("count")
    async def count(action: Action, ctx: Context) -> list[Step]:
        n = 0
        for _ in range(steps // 2):
            (step,) = await ctx.call(Action("add", {"n": n}))
            n = step.payload["n"]
        return [action_result("count", {"n": n})]

    await policies.run("count", {}, registry, journal=journal, run_id=run_id)
    calls = ran

    async def replayed() -> float:
        gc.collect()
        began = time.process_time()
        ledger = await policies.replay(run_id, registry, journal=journal)
        took = time.process_time() - began
        assert len(ledger) == steps + 2
        assert ran == calls, "a replay makes no call"
        return took / steps * 1e6

    return replayed
