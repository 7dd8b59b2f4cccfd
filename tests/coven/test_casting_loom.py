"""The loom of what was really cast: the loop writes what the loom reads, in every medium and with children."""

from __future__ import annotations

from typing import Any

import pytest

from branches.agents.call import Call
from branches.agents.cantrip import Cantrip
from branches.agents.circle import circle
from branches.agents.crystal import CrystalError, Usage
from branches.agents.gates import EXECUTE
from branches.agents.loom import Loom, Turn, export_loom, import_loom, read_loom, reward
from branches.agents.wards import Ward
from coven.casting import invoke
from coven.testing import ScriptedCrystal, calls, finishes, says
from journals import Store


def echo(text: str) -> str:
    """Say it again."""
    return text


def runs(code: str) -> Any:
    return calls((EXECUTE, {"code": code}))


def cantrip(script: list[Any], *children: list[Any], medium: str = "tools", max_turns: int = 10) -> Cantrip:
    gates = ["done", "call_agent", "call_agent_batch", echo]
    return Cantrip(
        ScriptedCrystal(script),
        Call(system_prompt="You are a test."),
        circle(gates, [Ward(max_turns=max_turns, max_depth=2)], medium),
        child_crystals=tuple(ScriptedCrystal(child) for child in children),
    )


async def loom_of(made: Cantrip, *intents: str, store: Store | None = None) -> Loom:
    async with invoke(made, store=store, session="s") as entity:
        for intent in intents:
            await entity.ask(intent)
        loom = await read_loom(entity.journal, "s")
    assert import_loom(export_loom(loom)) == loom
    return loom


def sequences(loom: Loom) -> list[tuple[str, int]]:
    names = {entity: "abcdef"[number] for number, entity in enumerate(loom.entity_ids)}
    return [(names[turn.entity_id], turn.sequence) for turn in loom.turns]


def gates(loom: Loom) -> list[list[str]]:
    return [[each.gate for each in turn.gate_calls] for turn in loom.turns]


async def test_turns_of_tool_calls(store: Store) -> None:
    script = [
        calls(("echo", {"text": "1"}), usage=Usage(100, 50, 10)),
        calls(("nope", {}), ("echo", {"text": "2"}), text="Again."),
        finishes("ok"),
    ]
    loom = await loom_of(cantrip(script), "go", store=store)
    assert sequences(loom) == [("a", 1), ("a", 2), ("a", 3)]
    assert gates(loom) == [["echo"], ["nope", "echo"], ["done"]]
    assert [turn.observation.splitlines()[-1] for turn in loom.turns] == ["1", "2", "ok"]
    assert loom.turns[0].metadata.usage == Usage(100, 50, 10)
    assert all(turn.metadata.duration_ms > 0 for turn in loom.turns)
    assert [turn.ending for turn in loom.turns] == [None, None, "terminated"]
    assert loom.call is not None
    assert loom.call.system_prompt == "You are a test."
    assert {turn.cantrip_id for turn in loom.turns} == {loom.call.cantrip_id}


async def test_several_episodes_are_one_thread() -> None:
    loom = await loom_of(cantrip([finishes("one"), says("two")]), "first", "second")
    (thread,) = loom.threads
    assert (thread.intents, [turn.result for turn in thread.turns]) == (("first", "second"), ["one", "two"])


async def test_endings() -> None:
    truncated = await loom_of(cantrip([calls(("echo", {"text": "1"}))], max_turns=1), "go")
    assert [(turn.ending, turn.reason) for turn in truncated.turns] == [("truncated", "max_turns")]
    failed = await loom_of(cantrip([CrystalError("refused", "no")]), "go")
    assert [(turn.ending, turn.reason) for turn in failed.turns] == [("failed", "refused: no")]


async def test_children_are_subtrees(store: Store) -> None:
    script = [
        calls(("echo", {"text": "1"}), ("call_agent", {"intent": "help"}), ("echo", {"text": "2"})),
        finishes("ok"),
    ]
    child = [calls(("echo", {"text": "c"})), says("helped")]
    loom = await loom_of(cantrip(script, child), "go", store=store)
    assert sequences(loom) == [("a", 1), ("b", 1), ("b", 2), ("a", 2), ("a", 3)]
    assert gates(loom) == [["echo"], ["echo"], [], ["call_agent", "echo"], ["done"]]
    ids = [turn.id for turn in loom.turns]
    assert [turn.parent_id for turn in loom.turns] == [None, ids[0], ids[1], ids[0], ids[3]]
    assert loom.turns[3].gate_calls[0].result == "helped"
    assert [thread.result for thread in loom.children(ids[0])] == ["helped"]
    assert loom.turns[1].cantrip_id != loom.turns[0].cantrip_id


async def test_a_batch_closes_one_turn_and_its_results_come_in_order() -> None:
    script = [
        calls(("call_agent_batch", {"requests": [{"intent": "a"}, {"intent": " "}, {"intent": "b"}]})),
        finishes("ok"),
    ]
    loom = await loom_of(cantrip(script, [says("1"), says("2")]), "go")
    assert sequences(loom) == [("a", 1), ("b", 1), ("c", 1), ("a", 2), ("a", 3)]
    results = loom.turns[3].gate_calls[0].result
    assert [results[0], results[2]] == ["1", "2"]
    assert "intent is required" in results[1]["error"]


async def test_a_delegation_that_is_refused_closes_nothing() -> None:
    script = [
        calls(("call_agent", {"intent": "x", "gates": ["fly"]})),
        calls(("call_agent", {"intent": "x", "crystal": "none"})),
        finishes("ok"),
    ]
    loom = await loom_of(cantrip(script), "go")
    assert sequences(loom) == [("a", 1), ("a", 2), ("a", 3)]
    assert [turn.gate_calls[0].is_error for turn in loom.turns] == [True, True, False]


async def test_a_child_that_fails_is_an_error_in_its_parents_turn() -> None:
    script = [calls(("call_agent", {"intent": "x"})), finishes("ok")]
    loom = await loom_of(cantrip(script, [CrystalError("refused", "no")]), "go")
    assert sequences(loom) == [("a", 1), ("b", 1), ("a", 2), ("a", 3)]
    assert [turn.ending for turn in loom.turns] == [None, "failed", None, "terminated"]
    assert loom.turns[2].gate_calls[0].is_error


@pytest.mark.parametrize("medium", ["javascript", "python"])
async def test_turns_of_code(medium: str, store: Store) -> None:
    script = [
        runs("echo('1'); nope()"),
        runs("echo('2'); echo(call_agent('help')); done(42)"),
    ]
    loom = await loom_of(cantrip(script, [runs("done('3')")], medium=medium), "go", store=store)
    assert sequences(loom) == [("a", 1), ("a", 2), ("b", 1), ("a", 3)]
    assert gates(loom)[2:] == [["done"], ["call_agent", "echo", "done"]]
    assert loom.turns[0].gate_calls[0].gate == "echo"
    assert loom.turns[0].error is not None
    assert loom.turns[1].utterance == "echo('2'); echo(call_agent('help')); done(42)"
    assert (loom.turns[2].parent_id, loom.turns[3].parent_id) == (loom.turns[1].id, loom.turns[1].id)
    assert (loom.turns[3].terminated, loom.turns[3].result) == (True, 42)
    assert loom.turns[3].gate_calls[0].result == loom.turns[3].gate_calls[1].result == "3"


async def test_a_fork_is_a_thread_beside_its_original(store: Store) -> None:
    script = [calls(("echo", {"text": "A"})), calls(("call_agent", {"intent": "B"})), finishes("original")]
    made, other = cantrip(script, [says("from the child")]), cantrip([finishes("forked")])
    async with invoke(made, store=store, session="s") as entity:
        await entity.ask("go")
        before = await read_loom(entity.journal, "s")
        forks = [await entity.fork(turn, session=f"fork{turn}", cantrip=other) for turn in (0, 1)]
        await forks[0].ask("go on differently")
        loom = await read_loom(entity.journal, "s", forks=True)
        assert await read_loom(entity.journal, "s") == before, "the original is as it was"
    assert [(thread.session, thread.result, len(thread)) for thread in loom.threads] == [
        ("s", "original", 4),
        ("fork0", "forked", 2),
    ]
    assert loom.thread(1).turns[0] == before.turns[0]
    assert import_loom(export_loom(loom)) == loom


async def test_a_fork_behind_a_delegation_comes_after_its_children(store: Store) -> None:
    script = [calls(("call_agent", {"intent": "B"})), finishes("original")]
    made, other = cantrip(script, [says("from the child")]), cantrip([finishes("forked")])
    async with invoke(made, store=store, session="s") as entity:
        await entity.ask("go")
        closed, _, continued, _ = (await entity.loom()).turns
        fork = await entity.fork(continued.id, session="fork", cantrip=other)
        await fork.ask("go on differently")
        loom = await read_loom(entity.journal, "fork")
        same = [await entity.fork(turn) for turn in (0, closed.id)]
        begun = {
            record.entry
            for each in (fork, *same)
            async for record in entity.journal.read(session=each.session, kinds=["EntityForked"])
        }
    assert len(begun) == 1, "it is one place to fork from"
    assert loom.turns[2] == continued
    assert continued.gate_calls[0].result == "from the child"
    assert [thread.turns[1].id for thread in loom.threads] == [continued.id, continued.id]


async def test_a_circle_names_the_function_that_scores_its_turns() -> None:
    def score(turn: Turn) -> float | None:
        return len(turn.observation) if turn.gate_calls else None

    gates = circle(["done", echo], [Ward(max_turns=9)], reward=score)
    made = Cantrip(ScriptedCrystal([calls(("echo", {"text": "four"})), says("ok")]), Call(), gates)
    async with invoke(made, session="s") as entity:
        await entity.ask("go")
        before = await entity.loom()
        await reward(entity.journal, before.turns[1], -1)
        after = await entity.loom()
        assert [turn.reward for turn in before.turns] == [4.0, None]
        assert [turn.reward for turn in after.turns] == [4.0, -1.0]
        assert [turn.reward for turn in (await read_loom(entity.journal, "s")).turns] == [None, -1.0]
