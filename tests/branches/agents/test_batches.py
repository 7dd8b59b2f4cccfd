"""Batches of children as large as they may be: so many at once, in the order asked, each at the cost of the first."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import msgspec
import pytest

from branches.agents.call import Call
from branches.agents.cantrip import Cantrip
from branches.agents.circle import circle
from branches.agents.crystal import CrystalError, CrystalRequest, CrystalResponse
from branches.agents.delegation import MAX_BATCH
from branches.agents.family import CHILDREN_AT_ONCE
from branches.agents.loom import read_loom
from branches.agents.wards import Ward
from coven.testing import ScriptedCrystal, calls, finishes
from journals import Journal, Store
from tests.branches.agents.bench import Bench
from tests.policies.bench import DyingLog


class Child:
    """Answers its intent; `before` is waited for first."""

    async def invoke(self, request: CrystalRequest, on_text: object = None) -> CrystalResponse:
        intent = int(request.messages[-1].content or "")
        await self.before(intent)
        return finishes(f"child {intent}")

    async def before(self, intent: int) -> None: ...


class LastFirst(Child):
    """Of each group of children that work together the last one answers first, and the first one last."""

    def __init__(self, children: int) -> None:
        self._answered = [asyncio.Event() for _ in range(children + 1)]
        self._together = asyncio.Barrier(CHILDREN_AT_ONCE)
        self.order: list[int] = []
        self.now = self.most = 0

    async def before(self, intent: int) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        if intent < CHILDREN_AT_ONCE:
            await self._together.wait()
        if (intent + 1) % CHILDREN_AT_ONCE and intent + 2 < len(self._answered):
            await self._answered[intent + 1].wait()
        self._answered[intent].set()
        self.order.append(intent)
        self.now -= 1
        if intent == 7:
            raise CrystalError("refused", "not this one", status=400)


def batch(children: int, child: Child) -> tuple[ScriptedCrystal, Cantrip]:
    """An entity that calls so many children at once, and tells what they gave."""
    requests = [{"intent": str(number)} for number in range(children)]
    crystal = ScriptedCrystal([calls(("call_agent_batch", {"requests": requests})), finishes("ok")])
    made = circle(["done", "call_agent", "call_agent_batch"], [Ward(max_turns=3)])
    return crystal, Cantrip(crystal, Call(), made, child_crystals=(child,))


async def test_two_hundred_children_work_so_many_at_once_and_answer_in_the_order_asked(store: Store) -> None:
    bench, child = Bench(store), LastFirst(MAX_BATCH)
    crystal, made = batch(MAX_BATCH, child)
    async with bench.serve(crystal, cantrip=made):
        assert (await bench.talk("go")).text == "ok"
    results: list[Any] = msgspec.json.decode(crystal.requests[-1].messages[-1].content or "")
    assert results.pop(7) == {"error": "I could not go on: not this one"}
    assert results == [f"child {number}" for number in range(MAX_BATCH) if number != 7]
    assert (child.most, child.order[0]) == (CHILDREN_AT_ONCE, CHILDREN_AT_ONCE - 1)
    loom = await read_loom(await bench.open())
    assert len({turn.entity_id for turn in loom.turns}) == MAX_BATCH + 1
    assert len(loom.turns) == MAX_BATCH + 3  # of its parent: the call, what goes on behind it, and the end


async def test_more_children_than_may_be_are_refused_before_there_is_one(store: Store) -> None:
    bench = Bench(store)
    crystal, made = batch(MAX_BATCH + 1, Child())
    async with bench.serve(crystal, cantrip=made):
        await bench.talk("go")
    told = crystal.requests[-1].messages[-1].content
    assert told == f"Error: bad_arguments: {MAX_BATCH + 1} children are more than the {MAX_BATCH} allowed"
    assert await bench.records("EntitySummoned") == []


@pytest.mark.parametrize("work", ["writes", "steps"])
async def test_a_child_of_many_costs_what_a_child_of_few_does(work: str) -> None:
    """Writes and calls of functions: counted, not timed."""

    async def cost(children: int) -> int:
        bench, steps = Bench(), 0
        plain = await bench.open()
        log = DyingLog(plain.log, at=0, when="")
        journal = Journal(log, plain.registry, clock=bench.clock.now)  # type: ignore[arg-type]
        crystal, made = batch(children, Child())

        def count(frame: object, event: str, argument: object) -> None:
            nonlocal steps
            steps += 1

        async with bench.serve(crystal, cantrip=made, journal=journal):
            sys.setprofile(count if work == "steps" else None)
            try:
                await bench.talk("go")
            finally:
                sys.setprofile(None)
        return log.writes if work == "writes" else steps

    few, some, many = [await cost(children) for children in (1, MAX_BATCH // 2, MAX_BATCH)]
    assert many - some <= 1.1 * (some - few) * (MAX_BATCH - MAX_BATCH // 2) / (MAX_BATCH // 2 - 1)
