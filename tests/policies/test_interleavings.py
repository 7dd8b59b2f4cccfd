"""Programs of any shape, branches that meet in any order, crashes anywhere: the ledger is the same."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from coven.testing import EagerClock
from journals import MemoryStore
from policies import Action, Context, Ledger, PolicyRegistry, Step, action_result, replay, resume, run
from tests.policies.bench import Killed
from tests.policies.dying import Process

Program = Any


def programs(*leaves: Program) -> st.SearchStrategy[Program]:
    """Calls, timers and keys, one after the other, side by side, and in scopes of their own."""
    leaf = st.sampled_from(leaves) | st.integers(0, 3).map(lambda n: {"do": "call", "n": n})
    return st.recursive(
        leaf,
        lambda inner: st.builds(
            lambda do, parts: {"do": do, "parts": parts},
            st.sampled_from(["one by one", "side by side", "scope"]),
            st.lists(inner, min_size=1, max_size=4),
        ),
        max_leaves=12,
    )


class Life:
    """One process that performs a program. How long its effects take is drawn anew in each life."""

    def __init__(self, process: Process, pace: int) -> None:
        self._pace = random.Random(pace)
        self.registry = PolicyRegistry()

        @self.registry.effect("add", idempotent=True)
        async def add(action: Action, ctx: Context) -> list[Step]:
            process.touch("add", ctx)
            for _ in range(self._pace.randrange(6)):
                await asyncio.sleep(0)
            return [action_result("add", {"n": action.payload["n"] + 1})]

        @self.registry.orchestrator("scope", actions=["add", "scope"])
        async def scope(action: Action, ctx: Context) -> list[Step]:
            given = [await perform(part, ctx, f"{n}") for n, part in enumerate(action.payload["parts"])]
            return [action_result("scope", {"sum": sum(given)})]


async def perform(program: Program, ctx: Context, path: str) -> int:
    """Do what the program says, and give what its calls gave, added up."""
    match program["do"]:
        case "call":
            (step,) = await ctx.call(Action("add", {"n": program["n"]}))
            return step.payload["n"]
        case "call by key":
            (step,) = await ctx.call(Action("add", {"n": 7}), key=path)
            return step.payload["n"]
        case "call with what was seen":
            seen = len(await ctx.get_ledger()) + ctx.random()
            (step,) = await ctx.call(Action("add", {"n": seen, "id": ctx.new_id(), "at": ctx.now()}))
            return 0
        case "sleep":
            await ctx.sleep(1)
            return 0
        case "scope":
            (step,) = await ctx.call(Action("scope", {"parts": program["parts"]}))
            return step.payload["sum"]
        case "side by side":
            parts = enumerate(program["parts"])
            return sum(await asyncio.gather(*(perform(part, ctx, f"{path}.{n}") for n, part in parts)))
        case _:
            return sum([await perform(part, ctx, f"{path}.{n}") for n, part in enumerate(program["parts"])])


async def live(
    store: MemoryStore, clock: EagerClock, program: Program, pace: int, at: int = 0, when: str = "before"
) -> tuple[Ledger | None, list[tuple[str, str, int]]]:
    """One life: until the program is done, or the process dies at its n-th write."""
    touches: list[tuple[str, str, int]] = []
    process = await Process.start(store, touches, clock=clock.now, at=at, when=when)
    life = Life(process, pace)
    payload = {"parts": [program]}
    with suppress(Killed):
        return (
            await run("scope", payload, life.registry, journal=process.journal, run_id="r", clock=clock),
            touches,
        )
    return None, touches


CRASHES = st.lists(st.tuples(st.integers(3, 40), st.sampled_from(["before", "after"]), st.integers(0, 99)), max_size=4)


@settings(max_examples=120, deadline=None)
@given(programs({"do": "call by key"}, {"do": "sleep"}), CRASHES)
async def test_the_ledger_is_that_of_a_run_that_nobody_disturbed(
    program: Program, crashes: list[tuple[int, str, int]]
) -> None:
    clock = EagerClock()
    expected, wanted = await live(MemoryStore(clock=clock.now), clock, program, pace=0)
    assert expected is not None
    store, clock = MemoryStore(clock=clock.now), EagerClock()
    touches: list[tuple[str, str, int]] = []
    for at, when, pace in crashes:
        _, touched = await live(store, clock, program, pace, at, when)
        touches += touched
    ledger, touched = await live(store, clock, program, pace=100)
    assert ledger is not None
    assert Counter(ledger) == Counter(expected)
    assert {id for _, id, _ in touches + touched} == {id for _, id, _ in wanted}


@settings(max_examples=120, deadline=None)
@given(programs({"do": "call with what was seen"}, {"do": "sleep"}), CRASHES)
async def test_branches_meet_in_the_same_order_again(program: Program, crashes: list[tuple[int, str, int]]) -> None:
    """Calls that depend on who came first are found again, after any number of crashes: nothing drifts."""
    clock = EagerClock()
    store = MemoryStore(clock=clock.now)
    for at, when, pace in crashes:
        await live(store, clock, program, pace, at, when)
    ledger, _ = await live(store, clock, program, pace=100)
    assert ledger is not None
    touches: list[tuple[str, str, int]] = []
    process = await Process.start(store, touches, clock=clock.now)
    registry = Life(process, 0).registry
    assert await replay("r", registry, journal=process.journal) == ledger
    assert await resume("r", registry, journal=process.journal) == ledger
    assert touches == []
