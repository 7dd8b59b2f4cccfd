"""Streaming events: what each record tells, live and replayed."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from branches.agents.crystal import Usage
from branches.agents.entries import AgentChunk, AgentThought
from branches.agents.events import (
    AnyEvent,
    Events,
    FinalResponseEvent,
    PieceEvent,
    StepCompleteEvent,
    StepStartEvent,
    TextEvent,
    ThinkingEvent,
    ToolCallEvent,
    ToolResultEvent,
    UsageEvent,
)
from branches.agents.internal import ContextFolded, Refusal
from branches.agents.loom import weave
from branches.agents.naming import child_id, gate_call_id, run_id, stream_id, turn_id
from journals import Entry, Record, derive_id
from tests.branches.agents.loom.story import Story, call, code
from tests.branches.agents.loom.test_turns import independent


async def events_of(story: Story) -> list[AnyEvent]:
    events = Events()
    return [event for record in await story.records() for event in events.feed(record)]


def told(events: list[AnyEvent]) -> list[str]:
    """The events in short: children's indented."""
    return ["  " * event.depth + _short(event) for event in events]


def _short(event: AnyEvent) -> str:
    match event:
        case StepStartEvent():
            return f"start {event.step}"
        case StepCompleteEvent():
            return f"complete {event.step}"
        case ThinkingEvent():
            return f"thinks {event.text}" + (" anew" if event.restart else "")
        case TextEvent():
            return f"says {event.text}" + (" anew" if event.restart else "")
        case UsageEvent():
            return f"used {event.total.prompt}"
        case ToolCallEvent():
            return f"calls {event.gate}"
        case ToolResultEvent():
            return f"{event.gate} {'fails' if event.is_error else 'gives'} {event.result}"
        case FinalResponseEvent():
            return f"{event.ending}: {event.text}"


async def test_an_episode_of_tool_calls() -> None:
    story = await Story.begin()
    run = await story.prompt("go")
    await story.cast()
    await story.calls(1, "hi")
    await story.add(AgentThought(sender="agents", text="Nearly."))
    await story.says(2, call("nope", "a"), call("done", "b", answer="ok"), content="So.", usage=Usage(20, 4))
    await story.ends("ok")
    events = await events_of(story)
    assert told(events) == [
        "start 1",
        "used 10",
        "calls echo",
        "echo gives hi",
        "complete 1",
        "start 2",
        "thinks Nearly.",
        "says So.",
        "used 30",
        "calls nope",
        "nope fails unknown_gate: there is no gate 'nope'; there are: done, call_agent, call_agent_batch, echo",
        "calls done",
        "done gives ok",
        "complete 2",
        "terminated: ok",
    ]
    assert {(event.session, event.entity_id) for event in events} == {("s", "entity-s")}
    assert list(dict.fromkeys(event.turn_id for event in events)) == [turn_id(run, 1), turn_id(run, 2)]
    made, given_back = events[2], events[3]
    assert isinstance(made, ToolCallEvent)
    assert isinstance(given_back, ToolResultEvent)
    assert made.id == given_back.id == gate_call_id(run, 1, 0)
    assert (made.arguments, made.tool_call_id) == ({"text": "hi"}, "call_1")
    assert isinstance(events[8], UsageEvent)
    assert events[8].usage == Usage(20, 4)


async def test_events_are_json_that_says_what_it_is() -> None:
    story = await Story.begin()
    await story.prompt("go")
    await story.cast()
    await story.ends_by_text(1, "ok")
    lines = [msgspec.json.encode(event) for event in await events_of(story)]
    assert [msgspec.json.decode(line)["event"] for line in lines] == [
        "StepStartEvent",
        "TextEvent",
        "UsageEvent",
        "StepCompleteEvent",
        "FinalResponseEvent",
    ]
    assert msgspec.json.decode(lines[1], type=AnyEvent).text == "ok"


async def test_attempts_and_folds_are_not_turns_but_their_tokens_count() -> None:
    story = await Story.begin()
    run = await story.prompt("go")
    await story.cast()
    await story.calls(1, "hi")
    await story.add(ContextFolded(run=run, turn=2, through=1, kept=1, summary="so far", usage=Usage(5, 1)))
    await story.asks(2)
    await story.asks(2, attempt=2)
    await story.ends_by_text(2, "ok")
    assert told(await events_of(story))[5:] == [
        "used 15",
        "start 2",
        "says ok",
        "used 22",
        "complete 2",
        "terminated: ok",
    ]
    assert weave(await story.records()).usage() == Usage(22, 6, 1)


async def test_an_episode_that_is_cut_off_completes_its_turn() -> None:
    story = await Story.begin()
    run = await story.prompt("go")
    await story.cast()
    await story.says(1, call("echo", text="a"))
    await story.tool_call(gate_call_id(run, 1, 0), "a")
    await story.ends("I was asked to stop.", ending="cancelled")
    assert told(await events_of(story))[2:] == ["calls echo", "complete 1", "cancelled: I was asked to stop."]


async def test_a_crystal_that_fails() -> None:
    story = await Story.begin()
    await story.prompt("go")
    await story.cast()
    await story.fails(1, "no route")
    await story.ends("I could not go on", ending="failed")
    assert told(await events_of(story)) == ["start 1", "complete 1", "failed: I could not go on"]


async def test_an_episode_that_ends_before_it_begins() -> None:
    story = await Story.begin()
    await story.prompt("go")
    await story.ends("I was asked to stop.", ending="cancelled")
    (event,) = await events_of(story)
    (turn,) = weave(await story.records()).turns
    assert event.turn_id == turn.id


async def test_a_child_closes_the_turn_of_its_parent() -> None:
    story = await Story.begin()
    run = await story.prompt("go")
    await story.cast()
    await story.says(1, call("call_agent", "a", intent="help"), call("echo", "b", text="x"))
    child = await story.summons(gate_call_id(run, 1, 0), "help")
    await story.calls(1, "from the child", run=child)
    await story.child_returns(child, "helped")
    await story.tool_call(gate_call_id(run, 1, 1), "x")
    await story.gives(gate_call_id(run, 1, 1), "x")
    await story.ends_by_text(2, "ok")
    events = await events_of(story)
    assert told(events) == [
        "start 1",
        "used 0",
        "calls call_agent",
        "complete 1",
        "  start 1",
        "  used 10",
        "  calls echo",
        "  echo gives from the child",
        "  complete 1",
        "  terminated: helped",
        "start 1",
        "call_agent gives helped",
        "calls echo",
        "echo gives x",
        "complete 1",
        "start 2",
        "says ok",
        "used 7",
        "complete 2",
        "terminated: ok",
    ]
    turns = [event.turn_id for event in events if isinstance(event, StepStartEvent)]
    assert turns == [turn.id for turn in weave(await story.records()).turns], "turns are those of the loom"
    assert {event.entity_id for event in events if event.depth} == {child_id(child)}


async def test_children_of_a_batch_work_at_the_same_time() -> None:
    story = await Story.begin()
    run = await story.prompt("go")
    await story.cast()
    batch = gate_call_id(run, 1, 0)
    await story.says(1, call("call_agent_batch", requests=["a", "b"]))
    await story.gate_called(batch, "call_agent_batch", {"requests": ["a", "b"]})
    one = await story.summons(derive_id(batch, "0"), "a", scope=batch)
    two = await story.summons(derive_id(batch, "1"), "b", scope=batch)
    await story.calls(1, "b", run=two)
    await story.child_returns(two, "B")
    await story.calls(1, "a", run=one)
    await story.child_returns(one, "A")
    await story.gate_returned(batch, ["A", "B"])
    await story.ends("cut", ending="truncated", ward="max_turns")
    events = await events_of(story)
    assert [line for line in told(events) if not line.startswith(" ")] == [
        "start 1",
        "used 0",
        "calls call_agent_batch",
        "complete 1",
        "start 1",
        "call_agent_batch gives ('A', 'B')",
        "complete 1",
        "truncated: cut",
    ]
    assert [event.text for event in events if isinstance(event, FinalResponseEvent)] == ["B", "A", "cut"]


async def test_calls_that_are_independent_are_told_at_once_and_their_results_as_they_come() -> None:
    story = await Story.begin()
    await independent(story)
    events = await events_of(story)
    assert [line for line in told(events) if not line.startswith("  ")] == [
        "start 1",
        "used 0",
        "calls call_agent",
        "calls call_agent",
        "calls echo",
        "calls nope",
        "nope fails unknown_gate: there is no gate 'nope'; there are: done, call_agent, call_agent_batch, echo",
        "complete 1",
        "start 1",
        "call_agent gives B",
        "echo gives c",
        "call_agent gives A",
        "calls done",
        "done gives ok",
        "complete 1",
        "terminated: ok",
    ]
    turns = [event.turn_id for event in events if isinstance(event, StepStartEvent)]
    assert turns == [turn.id for turn in weave(await story.records()).turns]


async def test_a_cancelled_root_completes_the_turns_of_its_children() -> None:
    story = await Story.begin()
    run = await story.prompt("go")
    await story.cast()
    await story.says(1, call("call_agent", intent="help"))
    child = await story.summons(gate_call_id(run, 1, 0), "help")
    await story.says(1, call("echo", text="x"), run=child)
    await story.ends("I was asked to stop.", ending="cancelled")
    events = await events_of(story)
    assert told(events)[-3:] == ["  calls echo", "  complete 1", "cancelled: I was asked to stop."]


async def test_code_and_the_gates_that_it_calls() -> None:
    story = await Story.begin()
    run = await story.prompt("compute")
    await story.cast(medium="javascript")
    await story.says(1, code("echo('a'); nope(); done(7)"))
    scope = gate_call_id(run, 1, 0)
    await story.gate_called(derive_id(scope, "0"), "echo", {"text": "a"}, scope=scope)
    await story.gate_returned(derive_id(scope, "0"), "a")
    refused = (Refusal(1, "nope", {}, "unknown_gate"),)
    await story.code_returned(scope, value=7, ending="finished", refused=refused)
    await story.ends("7", answer=7)
    events = await events_of(story)
    assert told(events) == [
        "start 1",
        "used 0",
        "calls execute",
        "calls echo",
        "echo gives a",
        "calls nope",
        "nope fails unknown_gate",
        "calls done",
        "done gives 7",
        "execute gives 7",
        "complete 1",
        "terminated: 7",
    ]
    inner = [event for event in events if isinstance(event, ToolCallEvent | ToolResultEvent) and event.within]
    assert {event.within for event in inner} == {scope}
    assert len({event.id for event in inner}) == 3


async def test_nothing_is_kept_of_what_is_over() -> None:
    story = await Story.begin()
    await story.prompt("go")
    await story.cast()
    for number in range(1, 20):
        await story.calls(number, "hi")
    await story.ends("over", ending="truncated", ward="max_turns")
    events = Events()
    for record in await story.records():
        events.feed(record)
    kept: Any = events
    assert not kept._runs
    assert not kept._calls
    assert not kept._speech._runs


async def test_nothing_is_kept_of_what_was_never_said() -> None:
    story = await Story.begin()
    run = await story.prompt("go")
    await story.cast()
    await story.asks(1)
    await story.ends("cut", ending="cancelled")
    *before, ended = await story.records()
    events = Events()
    for record in [*before, piece(turn_id(run, 1), 0, "Hm", thought=True), piece(turn_id(run, 1), 0, "I")]:
        events.feed(record)
    events.feed(ended)
    assert not events.feed(piece(turn_id(run, 1), 1, "m", thought=True))
    kept: Any = events
    assert [pieces._working for pieces in kept._speech._kinds.values()] == [{}, {}]


# Text in pieces


def piece(turn: str, index: int, text: str, attempt: int = 1, *, thought: bool = False) -> Record[Entry]:
    chunk = AgentChunk(stream=stream_id(turn, attempt, thought=thought), index=index, text=text, thought=thought)
    return Record(journal="agents-chunks", position=1, id="c", kind="AgentChunk", session="s", entry=chunk, time=0)


def heard(events: list[AnyEvent], kind: type[PieceEvent] = TextEvent) -> str:
    """What somebody sees who puts the pieces together as they come."""
    text = ""
    for event in events:
        if isinstance(event, kind):
            text = event.text if event.restart else text + event.text
    return text


async def two_attempts(*, thinks: bool = False) -> tuple[list[Record[Entry]], list[Record[Entry]]]:
    """The records of an utterance that came at the second attempt, and the pieces of both; of its thought, if any."""
    story = await Story.begin()
    run = await story.prompt("go")
    await story.cast()
    await story.asks(1)
    await story.asks(1, attempt=2)
    if thinks:
        await story.add(AgentThought(sender="agents", text="Hello, world"))
    await story.ends_by_text(1, "ok" if thinks else "Hello, world")
    turn = turn_id(run, 1)
    pieces = [
        piece(turn, 0, "Good ", thought=thinks),
        piece(turn, 1, "day", thought=thinks),
        piece(turn, 0, "Hello", 2, thought=thinks),
        piece(turn, 1, ", ", 2, thought=thinks),
        piece(turn, 2, "world", 2, thought=thinks),
    ]
    return await story.records(), pieces


async def test_a_thought_comes_in_pieces_and_is_not_repeated_when_it_is_recorded() -> None:
    records, pieces = await two_attempts(thinks=True)
    events = Events()
    fed: list[AnyEvent] = []
    for record in [*records[:3], *pieces[:2], records[3], *pieces[2:], *records[4:]]:
        fed += events.feed(record)
    assert told(fed) == [
        "start 1",
        "thinks Good ",
        "thinks day",
        "thinks Hello anew",
        "thinks , ",
        "thinks world",
        "says ok",
        "used 7",
        "complete 1",
        "terminated: ok",
    ]


async def test_a_thought_that_does_not_stand_in_the_end_is_taken_back() -> None:
    records, pieces = await two_attempts()
    away = piece(turn_id(run_id(records[0].id), 1), 0, "Hm.", thought=True)
    events = Events()
    fed = [event for record in [*records[:3], away, *records[3:], *pieces] for event in events.feed(record)]
    thoughts = [(event.text, event.restart) for event in fed if isinstance(event, ThinkingEvent)]
    assert thoughts == [("Hm.", False), ("", True)]


async def test_text_comes_in_pieces_and_is_not_repeated_by_the_utterance() -> None:
    records, pieces = await two_attempts()
    events = Events()
    fed: list[AnyEvent] = []
    for record in [*records[:3], *pieces[:2], records[3], *pieces[2:], *records[4:]]:
        fed += events.feed(record)
    texts = [(event.text, event.restart) for event in fed if isinstance(event, TextEvent)]
    assert texts == [("Good ", False), ("day", False), ("Hello", True), (", ", False), ("world", False)]


async def test_the_rest_of_a_text_whose_last_pieces_are_late_comes_with_the_utterance() -> None:
    records, pieces = await two_attempts()
    events = Events()
    fed = [event for record in [*records[:4], pieces[2], *records[4:], *pieces[3:]] for event in events.feed(record)]
    assert [event.text for event in fed if isinstance(event, TextEvent)] == ["Hello", ", world"]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), thinks=st.booleans())
def test_whatever_order_pieces_come_in_what_is_told_is_the_same(data: st.DataObject, thinks: bool) -> None:
    records, pieces = asyncio.run(two_attempts(thinks=thinks))
    lost = data.draw(st.sets(st.integers(0, len(pieces) - 1)))
    left = [each for number, each in enumerate(pieces) if number not in lost]
    order = data.draw(st.permutations([True] * len(records) + [False] * len(left)))
    events, fed = Events(), list[AnyEvent]()
    both = iter(records), iter(left)
    for own in order:
        fed += events.feed(next(both[0] if own else both[1]))
    assert heard(fed, ThinkingEvent if thinks else TextEvent) == "Hello, world"
    kinds = [type(event).__name__ for event in fed if not isinstance(event, PieceEvent)]
    assert kinds == ["StepStartEvent", "UsageEvent", "StepCompleteEvent", "FinalResponseEvent"]


@pytest.mark.parametrize("missing", range(12))
async def test_records_that_make_no_sense_do_no_harm(missing: int) -> None:
    story = await Story.begin()
    run = await story.prompt("go")
    await story.cast()
    await story.says(1, call("call_agent", "a", intent="help"), call("echo", "b", text="x"))
    child = await story.summons(gate_call_id(run, 1, 0), "help")
    await story.calls(1, "from the child", run=child)
    await story.child_returns(child, "helped")
    await story.ends("ok")
    records = await story.records()
    events = Events()
    for number, record in enumerate(records):
        if number != missing:
            events.feed(record)
