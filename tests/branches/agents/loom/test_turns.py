"""What a turn of the loom says, for every way in which a turn can stand in the journal."""

from __future__ import annotations

from typing import Any

import pytest

from branches.agents.circle import Observation
from branches.agents.crystal import Usage
from branches.agents.entries import LastTurn
from branches.agents.internal import CrystalRetried, Refusal
from branches.agents.loom import Loom, LoomIsAppendOnly, read_loom, weave
from branches.agents.naming import child_id, gate_call_id, turn_id
from journals import Store, derive_id
from tests.branches.agents.loom.story import Story, call, code


async def woven(story: Story) -> Loom:
    return await read_loom(story.journal, story.session)


def gates(loom: Loom) -> list[list[str]]:
    return [[each.gate for each in turn.gate_calls] for turn in loom.turns]


async def test_an_episode_of_tool_calls(store: Store) -> None:
    story = await Story.begin(store)
    run = await story.prompt("say it")
    await story.cast()
    first = await story.calls(1, "hello")
    second = await story.says(2, call("done", answer="hello"), content="I am done.", usage=Usage(20, 4, 8))
    await story.ends("hello")
    loom = await woven(story)
    one, two = loom.turns
    assert (one.id, one.parent_id, one.sequence) == (first, None, 1)
    assert (two.id, two.parent_id, two.sequence) == (second, first, 2)
    assert (one.id, two.id) == (turn_id(run, 1), turn_id(run, 2))
    assert {one.entity_id, two.entity_id} == {"entity-s"}
    assert {one.cantrip_id, two.cantrip_id} == {"cantrip-tools"}
    assert {one.session, two.session} == {"s"}
    assert (one.intent, two.intent) == ("say it", None)
    assert (one.utterance, one.observation) == ("", "hello")
    assert (two.utterance, two.observation) == ("I am done.", "hello")
    assert one.gate_calls == (Observation(gate="echo", args={"text": "hello"}, result="hello", tool_call_id="call_1"),)
    assert [each.gate for each in two.gate_calls] == ["done"]
    assert (one.terminated, one.truncated, one.ending, one.result) == (False, False, None, None)
    assert (two.terminated, two.truncated, two.ending, two.result) == (True, False, "terminated", "hello")
    assert one.metadata.usage == Usage(10, 2)
    assert two.metadata.usage == Usage(20, 4, 8)
    assert one.metadata.timestamp.endswith("+00:00")


async def test_a_turn_takes_as_long_as_its_crystal_and_its_gates() -> None:
    story = await Story.begin()
    await story.prompt("go")
    await story.cast()
    await story.calls(1, "hello")
    loom = await woven(story)
    assert loom.turns[0].metadata.duration_ms == 1500


async def test_the_call_is_at_the_root() -> None:
    story = await Story.begin()
    await story.prompt("go")
    await story.cast(system_prompt="You are a root.")
    await story.ends_by_text(1, "ok")
    loom = await woven(story)
    assert loom.call is not None
    assert loom.call.system_prompt == "You are a root."
    assert [gate.name for gate in loom.call.gates] == ["done", "call_agent", "call_agent_batch", "echo"]
    assert loom.calls[loom.turns[0].cantrip_id] == loom.call


async def test_text_that_ends_an_episode_is_a_turn_without_gate_calls() -> None:
    story = await Story.begin()
    await story.prompt("go")
    await story.cast()
    id = await story.ends_by_text(1, "It is 42.")
    (turn,) = (await woven(story)).turns
    assert (turn.id, turn.utterance, turn.observation, turn.gate_calls) == (id, "It is 42.", "", ())
    assert (turn.terminated, turn.result, turn.metadata.usage) == (True, "It is 42.", Usage(7, 3, 1))


async def test_text_where_done_is_required_is_a_turn_with_an_empty_observation() -> None:
    story = await Story.begin()
    await story.prompt("go")
    await story.cast()
    await story.says(1, content="Let me think.")
    await story.says(2, call("done", answer="ok"))
    await story.ends("ok")
    loom = await woven(story)
    assert [(turn.utterance, turn.observation) for turn in loom.turns] == [("Let me think.", ""), ("", "ok")]
    assert [turn.terminated for turn in loom.turns] == [False, True]


async def test_calls_that_never_left_the_circle_are_observed_too() -> None:
    story = await Story.begin()
    run = await story.prompt("go")
    await story.cast()
    await story.says(
        1,
        call("nope", "a", x=1),
        call("echo", "b", text="1"),
        call("done", "c"),
        call("done", "d", answer=[1]),
        call("echo", "e"),
    )
    id = gate_call_id(run, 1, 1)
    await story.tool_call(id, "1")
    await story.faults(id, "broken")
    await story.ends("[1]", answer=[1])
    (turn,) = (await woven(story)).turns
    assert [(each.gate, each.is_error, each.tool_call_id) for each in turn.gate_calls] == [
        ("nope", True, "a"),
        ("echo", True, "b"),
        ("done", True, "c"),
        ("done", False, "d"),
    ]
    assert turn.gate_calls[0].args == {"x": 1}
    assert turn.gate_calls[1].result == "failed: broken"
    assert "Error: failed: broken\n" in turn.observation
    assert turn.result == (1,)


@pytest.mark.parametrize(
    ("ending", "ward", "reason"),
    [("truncated", "max_turns", "max_turns"), ("failed", None, "out of luck"), ("cancelled", None, "cancelled")],
)
async def test_each_ending_is_recorded(ending: str, ward: str | None, reason: str) -> None:
    story = await Story.begin()
    await story.prompt("go")
    await story.cast()
    await story.calls(1, "hello")
    await story.ends("out of luck", ending=ending, ward=ward)
    (turn,) = (await woven(story)).turns
    assert (turn.terminated, turn.truncated) == (False, ending == "truncated")
    assert (turn.ending, turn.reason, turn.result) == (ending, reason, "out of luck")


async def test_a_crystal_that_fails_makes_a_turn_that_says_why() -> None:
    story = await Story.begin()
    await story.prompt("go")
    await story.cast()
    await story.calls(1, "hello")
    await story.fails(2, "no route")
    await story.ends("I could not go on: no route", ending="failed")
    failed = (await woven(story)).turns[-1]
    assert (failed.sequence, failed.utterance, failed.ending) == (2, "", "failed")
    assert failed.reason == failed.error == "unavailable: no route"


async def test_an_episode_that_ends_before_anything_was_said_has_one_empty_turn() -> None:
    story = await Story.begin()
    await story.prompt("go")
    await story.ends("I was asked to stop.", ending="cancelled")
    (turn,) = (await woven(story)).turns
    assert (turn.intent, turn.utterance, turn.ending, turn.entity_id) == ("go", "", "cancelled", "s")


async def test_attempts_are_not_turns() -> None:
    story = await Story.begin()
    run = await story.prompt("go")
    await story.cast()
    await story.asks(1)
    await story.add(CrystalRetried(run=run, turn=1, attempt=1, error="slow down", retry_at=1.5))
    await story.asks(1, attempt=2)
    await story.ends_by_text(1, "ok")
    assert len((await woven(story)).turns) == 1


async def test_what_is_not_finished_is_shown_as_far_as_it_has_come(store: Store) -> None:
    story = await Story.begin(store)
    run = await story.prompt("go")
    await story.cast()
    await story.asks(1)
    assert (await woven(story)).turns == ()
    await story.says(1, call("echo", "a", text="1"), call("echo", "b", text="2"), call("done", "c", answer="x"))
    await story.tool_call(gate_call_id(run, 1, 0), "1")
    await story.gives(gate_call_id(run, 1, 0), "1")
    await story.tool_call(gate_call_id(run, 1, 1), "2")
    loom = await woven(story)
    assert [each.tool_call_id for each in loom.turns[0].gate_calls] == ["a"]
    assert (loom.turns[0].ending, loom.threads[0].ending) == (None, "active")


async def test_of_several_outcomes_the_first_counts() -> None:
    story = await Story.begin()
    run = await story.prompt("go")
    await story.cast()
    await story.calls(1, "first")
    await story.faults(gate_call_id(run, 1, 0), "too late")
    assert (await woven(story)).turns[0].observation == "first"


async def test_an_entity_goes_on_with_its_next_intent_where_the_last_one_ended() -> None:
    story = await Story.begin()
    await story.prompt("one")
    await story.cast()
    await story.calls(1, "1")
    last = await story.ends_by_text(2, "ok")
    await story.prompt("two")
    await story.ends_by_text(1, "ok again")
    loom = await woven(story)
    assert [(turn.sequence, turn.intent, turn.ending) for turn in loom.turns] == [
        (1, "one", None),
        (2, None, "terminated"),
        (3, "two", "terminated"),
    ]
    assert loom.turns[2].parent_id == last
    (thread,) = loom.threads
    assert (len(thread), thread.intents, thread.result) == (3, ("one", "two"), "ok again")


async def test_prompts_that_wait_do_not_disturb_the_episode_at_work() -> None:
    story, other = (await Story.begin(),) * 2
    await story.prompt("one")
    cause, run = story.cause, story.run
    await other.prompt("two")
    story.cause, story.run = cause, run
    await story.cast()
    await story.ends_by_text(1, "ok")
    (turn,) = (await woven(story)).turns
    assert (turn.intent, turn.result) == ("one", "ok")


# Delegation


async def delegated(story: Story) -> tuple[str, str, str]:
    """One utterance: echo, a child, echo again; then the end."""
    run = await story.prompt("delegate")
    await story.cast()
    parent = await story.says(
        1, call("echo", "a", text="1"), call("call_agent", "b", intent="help"), call("echo", "c", text="2")
    )
    await story.tool_call(gate_call_id(run, 1, 0), "1")
    await story.gives(gate_call_id(run, 1, 0), "1")
    child = await story.summons(gate_call_id(run, 1, 1), "help", gates=("echo",))
    first = await story.calls(1, "from the child", run=child)
    await story.asks(2, child)
    await story.child_returns(child, "helped", last=LastTurn(turn=2, usage=Usage(5, 5), duration_ms=500))
    await story.tool_call(gate_call_id(run, 1, 2), "2")
    await story.gives(gate_call_id(run, 1, 2), "2")
    await story.ends_by_text(2, "ok")
    return parent, child, first


async def test_a_delegation_closes_its_turn(store: Store) -> None:
    story = await Story.begin(store)
    parent, child, first = await delegated(story)
    loom = await woven(story)
    continued = derive_id(parent, "continued", 1)
    assert [(turn.id, turn.parent_id, turn.sequence) for turn in loom.turns] == [
        (parent, None, 1),
        (first, parent, 1),
        (turn_id(child, 2), first, 2),
        (continued, parent, 2),
        (turn_id(story.run, 2), continued, 3),
    ]
    assert [turn.entity_id for turn in loom.turns] == ["entity-s", child_id(child), child_id(child), *["entity-s"] * 2]
    assert gates(loom) == [["echo"], ["echo"], [], ["call_agent", "echo"], []]
    assert loom.turns[3].gate_calls[0].result == "helped"
    assert loom.turns[3].gate_calls[0].args == {"intent": "help"}
    assert (loom.turns[3].utterance, loom.turns[3].metadata.usage) == ("", Usage())
    assert loom.turns[1].intent == "help"
    assert {turn.session for turn in loom.turns} == {"s"}
    child_call = loom.calls[loom.turns[1].cantrip_id]
    assert [gate.name for gate in child_call.gates] == ["done", "echo"]
    assert child_call.wards.max_depth == 1


async def test_a_child_that_never_began_closes_nothing() -> None:
    story = await Story.begin()
    run = await story.prompt("go")
    await story.cast()
    await story.says(1, call("call_agent", intent="help", crystal="none"))
    child = await story.summons(gate_call_id(run, 1, 0), "help", crystal="none")
    await story.child_returns(child, "unknown_crystal: there is none", ending="failed")
    (turn,) = (await woven(story)).turns
    assert [(each.gate, each.is_error) for each in turn.gate_calls] == [("call_agent", True)]


async def test_a_child_that_did_not_terminate_has_failed_for_its_parent() -> None:
    story = await Story.begin()
    run = await story.prompt("go")
    await story.cast()
    await story.says(1, call("call_agent", intent="help"))
    child = await story.summons(gate_call_id(run, 1, 0), "help")
    await story.calls(1, "x", run=child)
    await story.child_returns(child, "no turns left", ending="truncated", ward="max_turns")
    loom = await woven(story)
    assert [(turn.ending, turn.reason) for turn in loom.turns] == [
        (None, None),
        ("truncated", "max_turns"),
        (None, None),
    ]
    (seen,) = loom.turns[2].gate_calls
    assert (seen.result, seen.is_error) == ("child_truncated: no turns left", True)


async def test_one_batch_closes_one_turn() -> None:
    story = await Story.begin()
    run = await story.prompt("go")
    await story.cast()
    batch = gate_call_id(run, 1, 0)
    parent = await story.says(1, call("call_agent_batch", requests=["a", "b"]))
    await story.gate_called(batch, "call_agent_batch", {"requests": ["a", "b"]})
    one = await story.summons(derive_id(batch, "0"), "a", scope=batch)
    two = await story.summons(derive_id(batch, "1"), "b", scope=batch)
    await story.calls(1, "b", run=two)
    await story.calls(1, "a", run=one)
    await story.child_returns(two, "B", ending="terminated")
    await story.child_returns(one, "A", ending="terminated")
    await story.gate_returned(batch, ["A", "B"])
    loom = await woven(story)
    assert [turn.parent_id for turn in loom.turns] == [None, parent, parent, parent]
    assert [turn.sequence for turn in loom.turns] == [1, 1, 1, 2]
    assert loom.turns[3].gate_calls[0].result == ("A", "B")
    assert [thread.result for thread in loom.children(parent)] == ["B", "A"]
    assert len(loom.threads) == 1


async def test_children_of_children_hang_below_the_turn_that_called_them() -> None:
    story = await Story.begin()
    run = await story.prompt("go")
    await story.cast()
    await story.says(1, call("call_agent", intent="a"))
    child = await story.summons(gate_call_id(run, 1, 0), "a")
    below = await story.says(1, call("call_agent", intent="b"), run=child)
    grandchild = await story.summons(gate_call_id(child, 1, 0), "b", scope=child)
    deepest = await story.calls(1, "x", run=grandchild)
    await story.ends("I was asked to stop.", ending="cancelled")
    loom = await woven(story)
    assert [turn.parent_id for turn in loom.turns] == [None, loom.turns[0].id, below]
    assert [turn.id for turn in loom.path(deepest).turns] == [loom.turns[0].id, below, deepest]
    assert [turn.ending for turn in loom.turns] == ["cancelled"] * 3, "who was at work is over with the root"
    assert len(loom.threads) == 1
    ((thread,),) = [loom.children(loom.turns[0].id)]
    assert [turn.id for turn in thread.turns] == [below]


async def independent(story: Story) -> list[str]:
    """Two children and an echo at the same time; the second child returns first, the echo in between."""
    run = await story.prompt("go")
    await story.cast(independent=True)
    ids = [gate_call_id(run, 1, index) for index in range(3)]
    made = [call("call_agent", "a", intent="a"), call("call_agent", "b", intent="b"), call("echo", "c", text="c")]
    await story.says(1, *made, call("nope", "d"), call("done", "e", answer="ok"))
    await story.summons(ids[0], "a")
    await story.summons(ids[1], "b")
    await story.tool_call(ids[2], "c")
    await story.calls(1, "of a", run=ids[0])
    await story.calls(1, "of b", run=ids[1])
    await story.child_returns(ids[1], "B")
    await story.gives(ids[2], "c")
    await story.child_returns(ids[0], "A")
    await story.ends("ok")
    return ids


async def test_children_that_work_at_the_same_time_close_one_turn() -> None:
    story = await Story.begin()
    ids = await independent(story)
    loom = await woven(story)
    root, continued = loom.turns[0].id, loom.turns[3]
    assert [turn.parent_id for turn in loom.turns] == [None, root, root, root]
    assert [turn.sequence for turn in loom.turns] == [1, 1, 1, 2]
    assert [thread.entity_id for thread in loom.children(root)] == [child_id(ids[0]), child_id(ids[1])]
    assert [each.result for each in continued.gate_calls[:3]] == ["A", "B", "c"], "seen in the order of the calls"
    assert [each.gate for each in continued.gate_calls[3:]] == ["nope", "done"]
    assert continued.terminated


# Code


async def test_a_turn_of_code(store: Store) -> None:
    story = await Story.begin(store)
    run = await story.prompt("compute")
    await story.cast(medium="javascript")
    await story.says(1, code("echo('a'); nope(); echo('b')"), content="I try.")
    scope = gate_call_id(run, 1, 0)
    for key, text in (("0", "a"), ("2", "b")):
        await story.gate_called(derive_id(scope, key), "echo", {"text": text}, scope=scope)
        await story.gate_returned(derive_id(scope, key), text)
    refused = (Refusal(1, "nope", {}, "unknown_gate: nope"),)
    await story.code_returned(scope, output="printed\n", value=[1, 2], error="Error: out", refused=refused)
    await story.says(2, code("done(7)"))
    await story.code_returned(gate_call_id(run, 2, 0), value=7, ending="finished")
    await story.ends("7", answer=7)
    one, two = (await woven(story)).turns
    assert one.utterance == "I try.\n\necho('a'); nope(); echo('b')"
    assert [(each.gate, each.result, each.is_error) for each in one.gate_calls] == [
        ("echo", "a", False),
        ("nope", "unknown_gate: nope", True),
        ("echo", "b", False),
    ]
    assert one.observation == "printed\n[1,2]\nError: Error: out"
    assert one.error == "Error: out"
    assert {each.tool_call_id for each in one.gate_calls} == {None}
    (done,) = two.gate_calls
    assert (done.gate, done.args, done.result) == ("done", {"answer": 7}, 7)
    assert (two.terminated, two.result, two.error) == (True, 7, None)


async def test_code_that_delegates_goes_on_in_the_next_turn() -> None:
    story = await Story.begin()
    run = await story.prompt("compute")
    await story.cast(medium="javascript")
    await story.says(1, code("echo('a'); done(call_agent('sub'))"))
    scope = gate_call_id(run, 1, 0)
    await story.gate_called(derive_id(scope, "0"), "echo", {"text": "a"}, scope=scope)
    await story.gate_returned(derive_id(scope, "0"), "a")
    child = await story.summons(derive_id(scope, "1"), "sub", scope=scope)
    await story.says(1, code("done(42)"), run=child)
    await story.code_returned(gate_call_id(child, 1, 0), scope=child, value=42, ending="finished")
    await story.child_returns(child, "42", answer=42)
    await story.code_returned(scope, value=42, ending="finished")
    await story.ends("42", answer=42)
    loom = await woven(story)
    assert gates(loom) == [["echo"], ["done"], ["call_agent", "done"]]
    assert [turn.parent_id for turn in loom.turns] == [None, loom.turns[0].id, loom.turns[0].id]
    assert [turn.sequence for turn in loom.turns] == [1, 1, 2]
    assert [turn.terminated for turn in loom.turns] == [False, True, True]
    assert loom.turns[2].gate_calls[0].args == {"intent": "sub"}
    assert loom.turns[2].utterance == ""


async def test_what_is_no_code_is_refused_in_a_circle_of_code() -> None:
    story = await Story.begin()
    await story.prompt("compute")
    await story.cast(medium="python")
    await story.says(1, call("echo", text="a"))
    (turn,) = (await woven(story)).turns
    assert [(each.gate, each.is_error) for each in turn.gate_calls] == [("echo", True)]


# The loom itself


async def test_nothing_can_be_changed_or_deleted() -> None:
    story = await Story.begin()
    await story.prompt("go")
    await story.cast()
    await story.ends_by_text(1, "ok")
    loom: Any = await woven(story)
    with pytest.raises(LoomIsAppendOnly, match="loom is append-only"):
        loom.delete(0)
    with pytest.raises(LoomIsAppendOnly):
        del loom[0]
    with pytest.raises(LoomIsAppendOnly):
        loom.turns = ()
    with pytest.raises(LoomIsAppendOnly):
        loom.turns[0].utterance = "another"
    with pytest.raises(LoomIsAppendOnly):
        del loom.turns[0].id
    with pytest.raises(TypeError):
        loom.turns[0] = None


async def test_usage_adds_up_per_entity() -> None:
    story = await Story.begin()
    _, child, _ = await delegated(story)
    loom = await woven(story)
    assert loom.entity_ids == ("entity-s", child_id(child))
    assert loom.usage(child_id(child)) == Usage(15, 7)
    assert loom.usage("entity-s") == Usage(7, 3, 1)
    assert loom.usage() == Usage(22, 10, 1)
    assert loom.threads[0].usage == Usage(7, 3, 1)


async def test_records_that_make_no_sense_do_no_harm() -> None:
    """Any of the records may be missing: what is left is woven as far as it goes."""
    story = await Story.begin()
    await delegated(story)
    records = await story.records()
    for missing in range(len(records)):
        loom = weave([*records[:missing], *records[missing + 1 :]])
        assert len({turn.id for turn in loom.turns}) == len(loom.turns)
    for length in range(len(records)):
        weave(records[:length])
