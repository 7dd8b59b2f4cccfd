"""Rewards: given, seen in the turn itself, and shaped by a function."""

from __future__ import annotations

from branches.agents.loom import implicit_reward, read_loom, reward, rewarded
from branches.agents.naming import gate_call_id
from journals import Store
from tests.branches.agents.loom.story import Story, call, code


async def test_a_turn_can_be_given_a_reward_of_which_the_newest_counts(store: Store) -> None:
    story = await Story.begin(store)
    await story.prompt("go")
    await story.cast()
    await story.calls(1, "a")
    await story.ends_by_text(2, "ok")
    loom = await read_loom(story.journal, "s")
    assert [turn.reward for turn in loom.turns] == [None, None]
    await reward(story.journal, loom.turns[0], 0.5)
    record = await reward(story.journal, loom.turns[0], 1.0, by="Ada")
    assert record.session == "s"
    again = await read_loom(story.journal, "s")
    assert [turn.reward for turn in again.turns] == [1.0, None]
    assert again.turns[1:] == loom.turns[1:], "nothing else changes"


async def test_a_turn_tells_by_itself_whether_its_gates_succeeded_and_whether_its_code_threw() -> None:
    story = await Story.begin()
    run = await story.prompt("go")
    await story.cast()
    await story.calls(1, "a")
    await story.says(2, call("nope", "a"), call("done", "b", answer="ok"))
    await story.ends("ok")
    await story.prompt("compute")
    await story.cast(medium="javascript")
    await story.says(1, code("throw 1"))
    await story.code_returned(gate_call_id(story.run, 1, 0), error="Error: 1", ending="raised")
    await story.says(2, code("1 + 1"))
    await story.code_returned(gate_call_id(story.run, 2, 0), value=2)
    await story.ends("over", ending="truncated", ward="max_turns")
    del run
    loom = await read_loom(story.journal, "s")
    assert [implicit_reward(turn) for turn in loom.turns] == [1.0, 0.5, 0.0, None]


async def test_a_function_shapes_the_rewards_that_nobody_gave() -> None:
    story = await Story.begin()
    await story.prompt("go")
    await story.cast()
    await story.calls(1, "a")
    await story.ends_by_text(2, "ok")
    loom = await read_loom(story.journal, "s")
    await reward(story.journal, loom.turns[0], -1.0)
    loom = await read_loom(story.journal, "s")
    shaped = rewarded(loom, lambda turn: 10.0 if turn.terminated else 0.0)
    assert [turn.reward for turn in shaped.turns] == [-1.0, 10.0]
    assert [turn.reward for turn in rewarded(loom).turns] == [-1.0, None]
    assert [turn.reward for turn in loom.turns] == [-1.0, None], "the loom itself stays as it is"
