"""A run that has everything: 33 calls, three scopes deep, five legs side by side, retries, a timer and a version.

`python -m tests.policies.expedition <run id>` performs it over JetStream; what it does in the world goes into a file.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from coven.testing.clock import EagerClock
from journals import JetStreamStore
from policies import Action, Context, Ledger, PolicyRegistry, Retry, Step, action_result, run, run_registry

JOURNAL = "runs"
LEGS = 5
PAYLOAD = {"to": "the pole"}
NOT_IDEMPOTENT = frozenset({"hire", "pitch", "note", "report"})
Touch = Callable[[str, Context], None]


def expedition(touch: Touch) -> PolicyRegistry:
    """The policies; each effect touches the world once an attempt."""
    registry = PolicyRegistry()

    def effect(name: str, **how: object) -> None:
        async def policy(action: Action, ctx: Context) -> list[Step]:
            touch(name, ctx)
            await asyncio.sleep(0)
            if name == "forecast" and ctx.attempt < 3:
                raise ConnectionError("no connection")
            return [action_result(name, {"did": name, **action.payload})]

        registry.effect(name, **how)(policy)  # type: ignore[arg-type]

    for name in sorted(NOT_IDEMPOTENT):
        effect(name)
    effect("look", idempotent=True)
    effect("forecast", idempotent=True, retry=Retry(on=(ConnectionError,), attempts=3))

    @registry.orchestrator("camp", actions=["pitch", "forecast"])
    async def camp(action: Action, ctx: Context) -> list[Step]:
        await asyncio.gather(ctx.call(Action("pitch", action.payload)), ctx.call(Action("forecast", action.payload)))
        return [action_result("camp", {"drawn": ctx.random()})]

    @registry.orchestrator("leg", actions=["look", "camp", "note"])
    async def leg(action: Action, ctx: Context) -> list[Step]:
        (seen,) = await ctx.call(Action("look", action.payload))
        (camped,) = await ctx.call(Action("camp", {**action.payload, "seen": seen.payload["did"]}))
        await ctx.call(Action("note", {"same": "words"}))
        return [action_result("leg", {"camped": camped.payload["drawn"], "steps": len(await ctx.get_ledger())})]

    @registry.orchestrator("expedition")
    async def root(action: Action, ctx: Context) -> list[Step]:
        await ctx.call(Action("hire", action.payload))
        legs = await asyncio.gather(*(ctx.call(Action("leg", {"leg": n})) for n in range(LEGS)))
        version = await ctx.version("with a rest", 1, 2)
        await ctx.sleep(0.02)
        await ctx.call(Action("report", {"drawn": ctx.random(), "id": ctx.new_id()}))
        return [action_result("expedition", {"version": version, "legs": [step.payload for (step,) in legs]})]

    return registry


def same_but_in_doubt(ledger: Ledger, expected: Ledger) -> int:
    """Compare with the ledger of a run that nobody disturbed; gives how many outcomes are in doubt instead."""
    assert len(ledger) == len(expected)
    in_doubt = 0
    for step, wanted in zip(ledger, expected, strict=True):
        if step.payload.get("code") == "in_doubt":
            assert (step.id, step.actor) == (wanted.id, wanted.actor)
            assert step.actor in NOT_IDEMPOTENT
            in_doubt += 1
        else:
            assert step == wanted
    return in_doubt


def check_touches(touches: Iterable[tuple[str, str, int]]) -> None:
    """What is not idempotent was done at most once a call; what is, always under the same id."""
    ids: dict[str, set[str]] = {}
    times: Counter[tuple[str, str]] = Counter()
    for name, id, _ in touches:
        ids.setdefault(name, set()).add(id)
        times[name, id] += 1
    for (name, id), count in times.items():
        assert count == 1 or name not in NOT_IDEMPOTENT, f"{name} {id} was done {count} times"
    assert {name: len(known) for name, known in ids.items() if name in ("look", "forecast")} == {
        "look": LEGS,
        "forecast": LEGS,
    }


def touching(file: Path) -> Touch:
    """Write one line a touch, and let it be there whatever happens next."""

    def touch(name: str, ctx: Context) -> None:
        descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(descriptor, f"{name} {ctx.id} {ctx.attempt}\n".encode())
        finally:
            os.close(descriptor)

    return touch


def touches_in(file: Path) -> list[tuple[str, str, int]]:
    """What was written there."""
    lines = file.read_text().split("\n")[:-1] if file.exists() else []
    return [(name, id, int(attempt)) for name, id, attempt in map(str.split, lines)]


async def perform(run_id: str) -> None:
    """Perform the run, or go on with it, over the server that the environment names."""
    environ = os.environ
    connecting = JetStreamStore.connect(environ["PROBE_NATS"], environ["PROBE_COVEN"], token=environ["PROBE_TOKEN"])
    async with await connecting as store:
        journal = await store.open(JOURNAL, run_registry())
        registry = expedition(touching(Path(environ["PROBE_EFFECTS"])))
        await run("expedition", PAYLOAD, registry, journal=journal, run_id=run_id, clock=EagerClock())


if __name__ == "__main__":
    asyncio.run(perform(sys.argv[1]))
