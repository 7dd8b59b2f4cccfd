"""The events of what is really cast: live, and replayed from the journal."""

from __future__ import annotations

from typing import Any

import pytest

from branches.agents import AGENTS
from branches.agents.circle import circle
from branches.agents.events import (
    AnyEvent,
    FinalResponseEvent,
    PieceEvent,
    StepStartEvent,
    TextEvent,
    ToolResultEvent,
    follow,
)
from branches.agents.loom import read_loom
from branches.agents.service import AgentsService
from branches.agents.wards import Ward
from coven import Call, Cantrip, invoke
from coven.testing import EagerClock, ScriptedCrystal, calls, drops, finishes, says
from journals import Journal, Record, Store
from tests.branches.agents.bench import Bench


def echo(text: str) -> str:
    """Say it again."""
    return text


def cantrip(script: list[Any], child: list[Any] = []) -> Cantrip:  # noqa: B006
    gates = circle(["done", "call_agent", echo], [Ward(max_turns=9)])
    return Cantrip(ScriptedCrystal(script), Call(), gates, child_crystals=(ScriptedCrystal(child),))


async def followed(journal: Journal, prompt: Record[Any], chunks: Journal | None = None) -> list[AnyEvent]:
    return [event async for event in follow(journal, prompt, chunks)]


def folded(events: list[AnyEvent]) -> list[tuple[str, str]]:
    """The events by name, pieces put together, each with its text if it has one."""
    said: dict[tuple[str, str], str] = {}
    order = list[tuple[str, str]]()
    for number, event in enumerate(events):
        name = type(event).__name__
        if isinstance(event, PieceEvent):
            key = (name, event.turn_id)
            said[key] = event.text if event.restart else said.get(key, "") + event.text
        else:
            key = (name, str(number))
        if key not in order:
            order.append(key)
    return [(name, said.get((name, key), "")) for name, key in order]


async def test_events_live_are_events_replayed_and_their_turns_are_those_of_the_loom(store: Store) -> None:
    script = [
        calls(("echo", {"text": "1"}), ("call_agent", {"intent": "help"}), ("nope", {}), text="I ask.", thinking="Hm."),
        finishes("ok"),
        says("again"),
    ]
    made = cantrip(script, [calls(("echo", {"text": "c"}), thinking="So."), says("helped")])
    async with invoke(made, store=store, session="s") as entity:
        first = await entity.send("one")
        live = await followed(entity.journal, first)
        replayed = await followed(entity.journal, first)
        second = await followed(entity.journal, await entity.send("two"))
        loom = await read_loom(entity.journal, "s")
    assert live == replayed
    assert [type(event).__name__ for event in live if event.depth == 0] == [
        *("StepStartEvent", "ThinkingEvent", "TextEvent", "UsageEvent"),
        *("ToolCallEvent", "ToolResultEvent", "ToolCallEvent", "StepCompleteEvent"),
        *("StepStartEvent", "ToolResultEvent", "ToolCallEvent", "ToolResultEvent", "StepCompleteEvent"),
        *("StepStartEvent", "UsageEvent", "ToolCallEvent", "ToolResultEvent", "StepCompleteEvent"),
        "FinalResponseEvent",
    ]
    begun = [event.turn_id for event in [*live, *second] if isinstance(event, StepStartEvent)]
    assert begun == [turn.id for turn in loom.turns]
    assert [event.text for event in live if isinstance(event, FinalResponseEvent)] == ["helped", "ok"]
    assert [event.text for event in second if isinstance(event, FinalResponseEvent)] == ["again"]


async def test_an_entity_tells_what_happens_prompt_after_prompt(store: Store) -> None:
    script = [calls(("echo", {"text": str(number)})) for number in range(3)]
    made = cantrip([each for call in script for each in (call, says("ok"))])
    async with invoke(made, store=store, session="s") as entity:
        told = [[event async for event in entity.events(f"intent {number}", id=f"p{number}")] for number in range(3)]
        again = [event async for event in entity.events("intent 0", id="p0")]
        loom = await entity.loom()
    assert again == told[0], "an intent that was handed over before is not asked again"
    begun = [event.turn_id for events in told for event in events if isinstance(event, StepStartEvent)]
    assert begun == [turn.id for turn in loom.turns]
    results = [event.result for events in told for event in events if isinstance(event, ToolResultEvent)]
    assert results == ["0", "1", "2"], "the circle is known each time"


@pytest.mark.parametrize("medium", ["javascript", "python"])
async def test_turns_of_code_are_those_of_the_loom(medium: str) -> None:
    script = [
        calls(("execute", {"code": "echo('1'); nope()"})),
        calls(("execute", {"code": "echo(call_agent('help')); echo(call_agent('more')); done('ok')"})),
    ]
    child = [calls(("execute", {"code": "done('a')"})), calls(("execute", {"code": "done('b')"}))]
    gates = circle(["done", "call_agent", echo], [Ward(max_turns=9)], medium)
    made = Cantrip(ScriptedCrystal(script), Call(), gates, child_crystals=(ScriptedCrystal(child),))
    async with invoke(made, session="s") as entity:
        events = [event async for event in entity.events("go")]
        loom = await entity.loom()
    assert [event.turn_id for event in events if isinstance(event, StepStartEvent)] == [turn.id for turn in loom.turns]
    assert [turn.sequence for turn in loom.turns] == [1, 2, 1, 3, 1, 4]
    results = [(event.gate, event.result) for event in events if isinstance(event, ToolResultEvent) and not event.depth]
    assert [gate for gate, _ in results if gate not in ("execute", "nope")] == [
        *("echo", "call_agent", "echo", "call_agent", "echo", "done")
    ]
    assert results[-1] == ("execute", "ok")


async def test_independent_calls_have_the_turns_of_the_loom_too(store: Store) -> None:
    asked = [("call_agent", {"intent": "a"}), ("echo", {"text": "1"}), ("call_agent", {"intent": "b"})]
    gates = circle(["done", "call_agent", echo], [Ward(max_turns=9)], independent=True)
    child = ScriptedCrystal([says("x"), says("y")])
    made = Cantrip(ScriptedCrystal([calls(*asked), finishes("ok")]), Call(), gates, child_crystals=(child,))
    async with invoke(made, store=store, session="s") as entity:
        events = [event async for event in entity.events("go")]
        loom = await entity.loom()
    begun = [event.turn_id for event in events if isinstance(event, StepStartEvent)]
    assert sorted(begun) == sorted(turn.id for turn in loom.turns), "children are answered in any order"
    assert len(loom.threads) == 1
    given = [call for turn in loom.threads[0].turns for call in turn.gate_calls]
    assert sorted(call.gate for call in given) == ["call_agent", "call_agent", "done", "echo"]
    assert {call.result for call in given if call.gate == "call_agent"} == {"x", "y"}


async def test_the_events_of_a_prompt_that_waits_are_its_own(store: Store) -> None:
    async with invoke(cantrip([says("one"), says("two")]), store=store, session="s") as entity:
        first, second = await entity.send("first"), await entity.send("second")
        assert [event.text for event in await followed(entity.journal, second) if isinstance(event, TextEvent)] == [
            "two"
        ]
        assert [event.text for event in await followed(entity.journal, first) if isinstance(event, TextEvent)] == [
            "one"
        ]


async def test_thoughts_and_text_come_in_pieces_from_the_short_lived_journal() -> None:
    bench = Bench()
    chunks = await bench.store.open("agents-chunks", AGENTS.registry(short_lived=True), short_lived=True)
    crystal = ScriptedCrystal([drops("zero\n", thinking="x\ny\n"), says("one\ntwo\nthree", thinking="a\nb\nc")])
    service: AgentsService
    async with bench.serve(crystal, chunk_journal=chunks, clock=EagerClock()) as service:
        del service
        prompt: Any = await bench.ask("go")
        live = await followed(await bench.open(), prompt, chunks)
    whole = await followed(await bench.open(), prompt)
    assert folded(live) == folded(whole)
    assert folded(whole)[1:3] == [("ThinkingEvent", "a\nb\nc"), ("TextEvent", "one\ntwo\nthree")]
    assert len(live) > len(whole)
    assert [event for event in live if not isinstance(event, PieceEvent)] == [
        event for event in whole if not isinstance(event, PieceEvent)
    ]
