"""Killed anywhere with children, code and folds at work, an entity goes on exactly where it stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from branches.agents.call import Call
from branches.agents.cantrip import Cantrip
from branches.agents.circle import circle
from branches.agents.crystal import CrystalRequest, CrystalResponse, Message
from branches.agents.folding import Folding
from branches.agents.gate import gate
from branches.agents.internal import CrystalCalled
from branches.agents.medium import Medium, no_medium
from branches.agents.wards import Ward
from coven.testing import calls, finishes, says
from coven.testing.scripted import runs
from journals import Journal
from leaves.mediums.javascript import JavaScript
from leaves.mediums.python import Python
from tests.branches.agents.bench import Bench
from tests.policies.bench import DyingLog, Killed


class Reader:
    """A stateless crystal: what it says depends on the last message alone, whatever was folded before it."""

    def __init__(self, reply: Callable[[Message], CrystalResponse]) -> None:
        self._reply = reply
        self.asked = 0

    async def invoke(self, request: CrystalRequest, on_text: object = None) -> CrystalResponse:
        self.asked += 1
        return self._reply(request.messages[-1])


def count(n: int) -> int:
    """The next number."""
    return n + 1


def root(last: Message) -> CrystalResponse:
    """Counts to four, then delegates, then delegates twice at once, then ends."""
    said = last.content or ""
    if last.role == "user" and "Summarise" not in said:
        return calls(("count", {"n": 0}))
    if said.isdigit() and int(said) < 4:
        return calls(("count", {"n": int(said)}))
    if said.isdigit():
        return calls(("call_agent", {"intent": "one"}))
    if said == "child of one":
        return calls(("call_agent_batch", {"requests": ["two", {"intent": "three"}]}), ("nope", {}))
    return finishes(f"ended after {said[:20]}")


def child(last: Message) -> CrystalResponse:
    if last.role == "user":
        return calls(("count", {"n": 41}), text=last.content)
    return says("child of one") if last.content == "42" else finishes("never")


def tools() -> Cantrip:
    served = [gate(count, idempotent=True)]
    made = circle(["done", "call_agent", "call_agent_batch", *served], [Ward(max_turns=20)])
    folding = Folding(trigger_after_turns=3, keep_turns=2)
    return Cantrip(Reader(root), Call(system_prompt="You count."), made, folding, child_crystals=(Reader(child),))


def code(medium: str) -> Callable[[], Cantrip]:
    first = {
        "javascript": "var total = 0; var seen = []; total = count({n: total}); seen.push(Math.random()); total",
        "python": "import random\ntotal = 0\nseen = []\ntotal = count(total)\nseen.append(random.random())\ntotal",
    }[medium]
    again = {
        "javascript": "total = count(total); seen.push(Math.random()); total",
        "python": "total = count(total)\nseen.append(random.random())\ntotal",
    }[medium]
    last = {
        "javascript": "var told = call_agent({intent: 'one'}); done([total, seen, told])",
        "python": "told = call_agent(intent='one')\ndone([total, seen, told])",
    }[medium]
    spoken = {"javascript": "done('child of ' + (1 + 1))", "python": "done('child of ' + str(1 + 1))"}[medium]

    def reply(last_message: Message) -> CrystalResponse:
        said = last_message.content or ""
        if last_message.role == "user":
            return runs(first)
        return runs(again) if int(said) < 4 else runs(last)

    def made() -> Cantrip:
        served = [gate(count, idempotent=True)]
        made = circle(["done", "call_agent", *served], [Ward(max_turns=20)], medium)
        return Cantrip(Reader(reply), Call(), made, child_crystals=(Reader(lambda _: runs(spoken)),))

    return made


class Mediums:
    """Sandboxes of one process: a kill takes them along."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __call__(self, name: str) -> Medium:
        if name == "tools":
            return no_medium(name)
        return self._made.setdefault(name, {"javascript": JavaScript, "python": Python}[name]())

    async def close(self) -> None:
        for medium in self._made.values():
            await medium.close()


async def run(bench: Bench, cantrip: Cantrip, at: int = 0, when: str = "") -> int:
    """One process: it serves until the response, or until it is killed at a write. Gives how often it wrote."""
    journal = await bench.open()
    log = DyingLog(journal.log, at, when)
    dying = Journal(log, journal.registry, clock=bench.clock.now)  # type: ignore[arg-type]
    prompt, mediums = await bench.ask("go"), Mediums()
    service = await bench.service(cantrip.crystal, journal=dying, cantrip=cantrip, medium=mediums)
    serving, answered = asyncio.create_task(service.run(lambda: None)), asyncio.create_task(bench.response(prompt))
    try:
        await asyncio.wait([serving, answered], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (serving, answered):
            task.cancel()
        await asyncio.wait([serving, answered])
        await mediums.close()
    if not serving.cancelled():
        assert isinstance(serving.exception(), Killed)
    return log.writes


async def told(bench: Bench) -> list[Any]:
    """What is recorded, whatever the order in which children that work at the same time were recorded."""
    return sorted(await bench.outcome(), key=lambda line: (line[0], line[1][1]))


@pytest.mark.parametrize("made", [tools, code("javascript"), code("python")], ids=["tools", "javascript", "python"])
async def test_killed_at_every_write_it_ends_in_the_same_journal(made: Callable[[], Cantrip]) -> None:
    undisturbed = Bench()
    writes = await run(undisturbed, made())
    expected = await told(undisturbed)
    assert writes > 20
    for when in ("before", "after"):
        for at in range(1, writes + 1):
            bench = Bench()
            first, second = made(), made()
            await run(bench, first, at, when)
            await run(bench, second)
            assert await told(bench) == expected, f"killed {when} write {at}"
            asked = sum(crystal.asked for each in (first, second) for crystal in (each.crystal, *each.child_crystals))  # type: ignore[attr-defined]
            called = [r for r in await bench.records() if isinstance(r.entry, CrystalCalled)]
            assert asked <= len(called)


async def test_a_gate_that_must_not_be_repeated_is_in_doubt_when_it_was_cut_off() -> None:
    ran: list[int] = []
    paying = asyncio.Event()

    async def pay(amount: int) -> str:
        """Pay."""
        ran.append(amount)
        paying.set()
        await asyncio.Event().wait()
        return "paid"

    def reply(last: Message) -> CrystalResponse:
        return calls(("pay", {"amount": 3})) if last.role == "user" else finishes(last.content or "")

    bench, made = Bench(), circle(["done", pay], [Ward(max_turns=5)])
    cantrip = Cantrip(Reader(reply), Call(), made)
    async with bench.serve(cantrip.crystal, cantrip=cantrip):
        prompt = await bench.ask("go")
        await paying.wait()
    async with bench.serve(cantrip.crystal, cantrip=cantrip):
        assert "in_doubt" in (await bench.response(prompt)).text
    assert ran == [3]
