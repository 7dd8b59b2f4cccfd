"""Where code finds its gates, and how their arguments are read."""

from __future__ import annotations

import keyword

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branches.agents.gates import DONE, GateDefinition
from leaves.mediums.names import CodeGate, bind, code_gates
from tests.leaves.mediums.entities import gate

RESERVED = frozenset({"class", "print", "eval", "None"})


def names(*gates: str) -> dict[str, str]:
    return {g.definition.name: g.name for g in code_gates([gate(name) for name in gates], RESERVED)}


def test_identifiers_stay_what_they_are() -> None:
    assert names("read", "fs.read_text") == {"read": "read", "fs.read_text": "fs.read_text"}


def test_what_is_no_identifier_becomes_one() -> None:
    assert names("get-weather", "1st", "print", "a b") == {
        "get-weather": "get_weather",
        "1st": "_1st",
        "print": "print_",
        "a b": "a_b",
    }


def test_exact_names_win() -> None:
    assert names("get-weather", "get_weather") == {"get_weather": "get_weather", "get-weather": "get_weather_2"}


def test_a_gate_is_no_namespace() -> None:
    assert names("fs", "fs.read") == {"fs": "fs", "fs.read": "fs_read"}


def test_done_has_another_word_unless_it_is_taken() -> None:
    assert [g.name for g in code_gates([DONE], RESERVED)] == ["done", "submit_answer"]
    assert [g.name for g in code_gates([DONE, gate("submit_answer")], RESERVED)] == ["done", "submit_answer"]


@given(
    st.lists(
        st.text(min_size=1, max_size=12) | st.sampled_from(["a", "a.b", "a-b", "a_b", "a.b.c", "class"]), unique=True
    )
)
def test_every_gate_has_a_place_of_its_own(many: list[str]) -> None:
    placed = code_gates([gate(name) for name in many], RESERVED)
    paths = [g.path for g in placed]
    assert sorted(g.definition.name for g in placed if g.name != "submit_answer") == sorted(
        name for name in many if name != "submit_answer"
    )
    for path in paths:
        assert all(part.isidentifier() and part.isascii() for part in path)
        assert not any(keyword.iskeyword(part) for part in path[1:])
        assert path[0] not in RESERVED
        assert sum(other[: len(path)] == path for other in paths) == 1


def code_gate(*properties: str, required: int | None = None, **more: object) -> CodeGate:
    definition = gate("g", *properties, required=required)
    return CodeGate(("g",), GateDefinition("g", "", {**definition.parameters, **more}))


@pytest.mark.parametrize(
    ("gate", "positional", "keywords", "arguments"),
    [
        (code_gate("a", "b"), [1, 2], {}, {"a": 1, "b": 2}),
        (code_gate("a", "b"), [{"a": 1}], {}, {"a": 1}),
        (code_gate("a", "b"), [{"a": 1, "c": 2}], {}, {"a": {"a": 1, "c": 2}}),
        (code_gate("a", "b"), [{}], {}, {"a": {}}),
        (code_gate("a", required=0), [{}], {}, {}),
        (code_gate("a", "b"), [{}, {"b": 1}], {}, {"a": {}, "b": 1}),
        (code_gate("a", "b"), [1], {"b": {"a": 1}}, {"a": 1, "b": {"a": 1}}),
        (code_gate(), [], {}, {}),
        (code_gate(), [{"x": 1}], {}, {"x": 1}),
        (code_gate("a", additionalProperties=True), [{"a": 1, "z": 2}], {}, {"a": 1, "z": 2}),
        (code_gate("a", additionalProperties=True), [], {"z": 2}, {"z": 2}),
    ],
)
def test_arguments(
    gate: CodeGate, positional: list[object], keywords: dict[str, object], arguments: dict[str, object]
) -> None:
    assert bind(gate, positional, keywords) == arguments


@pytest.mark.parametrize(
    ("positional", "keywords", "says"),
    [
        ([1, 2, 3], {}, "3 positional"),
        ([1], {"a": 1}, "twice"),
        ([], {"z": 1}, "no argument 'z'"),
    ],
)
def test_arguments_that_do_not_fit(positional: list[object], keywords: dict[str, object], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        bind(code_gate("a", "b"), positional, keywords)
