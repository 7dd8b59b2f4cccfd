"""The loom as JSON lines: what is written is read as the same tree."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from branches.agents.circle import Observation
from branches.agents.loom import (
    InvalidLoomLine,
    Loom,
    Turn,
    TurnMetadata,
    export_loom,
    import_loom,
    read_loom,
    reward,
)
from policies import freeze
from tests.branches.agents.loom.story import Story, call
from tests.branches.agents.loom.test_threads import forked

FOREIGN = {
    "id": "t1",
    "parent_id": None,
    "cantrip_id": "c",
    "entity_id": "e",
    "sequence": 1,
    "utterance": "hello",
    "observation": "",
    "gate_calls": [{"gate": "read", "result": "x", "is_error": False}],
    "metadata": {
        "tokens_prompt": 1,
        "tokens_completion": 2,
        "tokens_cached": 0,
        "duration_ms": 12,
        "timestamp": "2025-01-01T00:00:00Z",
    },
    "reward": None,
    "terminated": False,
    "truncated": True,
}


def line(**changed: Any) -> str:
    return json.dumps({**FOREIGN, **changed})


async def test_a_line_has_the_fields_of_the_specification() -> None:
    story, _ = await forked()
    loom = await read_loom(story.journal)
    await reward(story.journal, loom.turns[0], 0.5)
    first, *others = [json.loads(text) for text in export_loom(await read_loom(story.journal))]
    assert FOREIGN.keys() <= first.keys()
    assert first["metadata"].keys() == FOREIGN["metadata"].keys()
    assert first["gate_calls"] == [
        {"gate": "echo", "args": {"text": "A"}, "result": "A", "is_error": False, "tool_call_id": "call_1"}
    ]
    assert (first["parent_id"], first["reward"]) == (None, 0.5)
    assert first["call"]["system_prompt"] == "You are a test."
    assert all("call" not in other for other in others), "each cantrip's call is told once"
    assert [other["terminated"] for other in others] == [False, True, True]


@pytest.mark.parametrize("ending", ["truncated", "failed", "cancelled"])
async def test_what_did_not_terminate_is_truncated_with_a_reason(ending: str) -> None:
    story = await Story.begin()
    await story.prompt("go")
    await story.cast()
    await story.calls(1, "a")
    await story.ends("over", ending=ending, ward="max_turns" if ending == "truncated" else None)
    loom = await read_loom(story.journal)
    (text,) = export_loom(loom)
    told = json.loads(text)
    assert (told["terminated"], told["truncated"]) == (False, True)
    assert told["reason"] == {"truncated": "max_turns", "failed": "over", "cancelled": "cancelled"}[ending]
    assert import_loom([text]) == loom


async def test_export_and_import_give_the_same_tree() -> None:
    story, _ = await forked()
    await story.prompt("odd")
    await story.says(1, call("done", answer={"deep": [1, 2.5, None, {"x": "\u2028\U0001f600"}]}))
    await story.ends("odd", answer={"deep": [1, 2.5, None, {"x": "\u2028\U0001f600"}]})
    loom = await read_loom(story.journal)
    again = import_loom(export_loom(loom))
    assert again == loom
    assert again.threads == loom.threads
    assert again.call == loom.call
    assert list(export_loom(again)) == list(export_loom(loom))


async def test_lines_are_made_while_they_are_taken() -> None:
    story, _ = await forked()
    loom = await read_loom(story.journal)
    assert len(list(islice(export_loom(loom), 1))) == 1
    assert all(text.endswith(b"\n") and text.count(b"\n") == 1 for text in export_loom(loom))


def test_lines_of_another_program_are_read() -> None:
    loom = import_loom(["\n", line(), line(id="t2", parent_id="t1", sequence=2, terminated=True, truncated=False), ""])
    one, two = loom.turns
    assert one.gate_calls == (Observation(gate="read", args={}, result="x"),)
    assert (one.ending, two.ending) == ("truncated", "terminated")
    assert import_loom([line(something="else")]).turns == (one,)


def test_forks_and_children_of_another_program_are_told_apart_by_their_sequence() -> None:
    lines = [
        line(),
        line(id="t2", parent_id="t1", sequence=2),
        line(id="fork", parent_id="t1", sequence=2),
        line(id="child", parent_id="t1", entity_id="kid", sequence=1),
    ]
    loom = import_loom(lines)
    assert [[turn.id for turn in thread.turns] for thread in loom.threads] == [["t1", "t2"], ["t1", "fork"]]
    assert [thread.last.id for thread in loom.children("t1")] == ["child"]


@pytest.mark.parametrize(
    ("lines", "number", "reason"),
    [
        (["{"], 1, "no turn"),
        ([line(), "[]"], 2, "no turn"),
        ([line(), "", line(id="t2", parent_id="t0")], 3, "stands in no earlier line"),
        ([line(), line()], 2, "stands in an earlier line already"),
        ([line(sequence="one")], 1, "sequence"),
        ([b"\xff\n"], 1, "no turn"),
        ([line(result=json.loads("[" * 200 + "]" * 200))], 1, "nested deeper"),
    ],
)
def test_a_line_that_does_not_fit_is_named(lines: list[str], number: int, reason: str) -> None:
    with pytest.raises(InvalidLoomLine, match=reason) as caught:
        import_loom(lines)
    assert caught.value.number == number


TEXT = st.text(max_size=6)
JSON = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | TEXT
).flatmap(lambda leaf: st.sampled_from([leaf, [leaf, []], {"a": leaf, "": {}}]))
ENDINGS = st.sampled_from([None, "terminated", "truncated", "failed", "cancelled"])
OBSERVED = st.builds(
    Observation,
    gate=TEXT,
    args=st.fixed_dictionaries({"x": JSON}).map(freeze),
    result=JSON.map(freeze),
    is_error=st.booleans(),
    tool_call_id=st.none() | TEXT,
)


@st.composite
def looms(draw: st.DrawFn) -> Loom:
    """Turns of any shape below any of those before them."""
    turns: list[Turn] = []
    for number in range(draw(st.integers(0, 8))):
        parent = draw(st.none() | st.sampled_from(turns)) if turns else None
        ending = draw(ENDINGS)
        turns.append(
            Turn(
                id=f"t{number}",
                parent_id=parent and parent.id,
                cantrip_id="c",
                entity_id=draw(st.sampled_from("abc")),
                sequence=number + 1,
                utterance=draw(TEXT),
                observation="",
                gate_calls=(draw(OBSERVED),) if number % 3 == 0 else (),
                metadata=TurnMetadata(tokens_prompt=number, timestamp="2026-01-01T00:00:00+00:00"),
                reward=draw(st.none() | st.floats(allow_nan=False, allow_infinity=False)),
                terminated=ending == "terminated",
                truncated=ending == "truncated",
                ending=ending,
                reason=None if ending in (None, "terminated") else "why",
                result=freeze(draw(JSON)) if ending else None,
                intent=draw(st.none() | TEXT),
                session=draw(st.sampled_from([None, "s", "t"])),
            )
        )
    return Loom(turns)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # other work on the machine makes it slow
@given(looms())
def test_any_tree_survives_export_and_import(loom: Loom) -> None:
    again = import_loom(export_loom(loom))
    assert again == loom
    assert again.threads == loom.threads
    on_paths = {turn.id for thread in again.threads for turn in thread.turns}
    below = [thread for turn in again.turns for thread in again.children(turn.id)]
    assert on_paths | {turn.id for thread in below for turn in thread.turns} == {turn.id for turn in again.turns}
