"""The assertions themselves: what is expected wrongly is found, and there is none for which nobody looks."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from branches.agents.crystal import CrystalRequest, ToolCall, Usage
from branches.agents.crystal import Message as Shown
from branches.agents.gates import DONE
from tests.conformance.case import Case, Circle, Crystal, Expect, Setup
from tests.conformance.checks import CHECKS, USED_UP, WALKED, method, mismatches, same
from tests.conformance.story import EpisodeSeen, GateSeen, Story, TurnSeen

ECHO = GateSeen(gate="echo", args={"text": "a"}, result="a", tool_call_id="call_1")
FIRST = TurnSeen(
    id="t1",
    parent_id=None,
    cantrip_id="c",
    entity_id="e1",
    sequence=1,
    utterance="I look.",
    observation="a",
    gate_calls=(ECHO, GateSeen(gate="fetch", result="no network", is_error=True)),
    metadata={"tokens_prompt": 10, "duration_ms": 2.5, "timestamp": "2026-01-01"},
    reward=0.5,
)
LAST = TurnSeen(
    id="t2",
    parent_id="t1",
    cantrip_id="c",
    entity_id="e1",
    sequence=2,
    utterance="",
    observation="ok",
    gate_calls=(GateSeen(gate="done", args={"answer": 42}, result=42),),
    terminated=True,
)
ASKED = Shown("user", "go")
STORY = Story(
    episodes=(
        EpisodeSeen(
            entity_id="e1",
            intent="go",
            ending="terminated",
            result=42,
            turns=2,
            usage=Usage(30, 5, 4),
            thread=("t1", "t2"),
        ),
    ),
    requests={
        "crystal": (
            CrystalRequest([ASKED], (DONE,), "required"),
            CrystalRequest(
                [
                    ASKED,
                    Shown("assistant", "I look.", (ToolCall("call_1", "echo", '{"text": "hidden"}'),)),
                    Shown("tool", "a", tool_call_id="call_1"),
                ],
                (DONE,),
                "required",
            ),
        )
    },
    turns=(FIRST, LAST),
    threads=1,
    call={"system_prompt": "You are", "temperature": None, "require_done_tool": False, "gates": ["done"]},
    runs=("echo",),
    retries=(1.5,),
)


def case(expect: dict[str, Any], crystal: Crystal | None = None) -> Case:
    setup = Setup(circle=Circle(gates=[], wards=[]), crystals={"crystal": crystal or Crystal()})
    return Case(rule="LOOP-1", name="a case", setup=setup, expect=msgspec.convert(expect, Expect, str_keys=True))


def test_there_is_a_method_for_every_key_of_every_expectation() -> None:
    assert [
        method(struct, field.name)
        for struct in WALKED
        for field in msgspec.structs.fields(struct)
        if not callable(getattr(CHECKS, method(struct, field.name), None))
    ] == []


RIGHT: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("result", {"result": 42}, {"result": "42"}),
    ("result is no truth", {"result": 42}, {"result": True}),
    ("results", {"results": [42]}, {"results": [42, 42]}),
    ("ending", {"ending": "terminated"}, {"ending": "truncated"}),
    ("terminated", {"terminated": True}, {"terminated": False}),
    ("truncated", {"truncated": False}, {"truncated": True}),
    ("turns", {"turns": 2}, {"turns": 1}),
    ("ward", {"ward": None}, {"ward": "max_turns"}),
    ("entities", {"entities": 1}, {"entities": 2}),
    ("entity_ids_unique", {"entity_ids_unique": True}, {"entity_ids_unique": False}),
    ("usage", {"usage": {"prompt_tokens": 30, "cached_tokens": 4}}, {"usage": {"cached_tokens": 5}}),
    ("total", {"cumulative_usage": {"total_tokens": 35}}, {"cumulative_usage": {"total_tokens": 30}}),
    ("order", {"gate_call_order": ["echo", "fetch", "done"]}, {"gate_call_order": ["fetch", "echo", "done"]}),
    ("executed", {"gate_calls_executed": ["echo", "done"]}, {"gate_calls_executed": ["echo", "fetch", "done"]}),
    ("results of gates", {"gate_results": ["a", "no network", 42]}, {"gate_results": ["a", "no network"]}),
    ("runs", {"gate_runs": {"echo": 1}}, {"gate_runs": {}}),
    ("retries", {"retries": [1.5]}, {"retries": [1.5, 3.0]}),
    ("retries by matcher", {"retries": ["greater_than(1)"]}, {"retries": ["greater_than(2)"]}),
    ("choice", {"crystal_received_tool_choice": "required"}, {"crystal_received_tool_choice": "auto"}),
    ("tools", {"crystal_received_tools": [{"name": "done"}]}, {"crystal_received_tools": [{"name": "read"}]}),
    ("all the tools", {"crystal_received_tools": [{"name": "done"}]}, {"crystal_received_tools": []}),
    ("sampling", {"crystal_received_sampling": {}}, {"crystal_received_sampling": {"temperature": 0}}),
    ("asked", {"invocations": {"crystal": 2}}, {"invocations": {"crystal": 1}}),
    ("asked so often", {"invocations": {"crystal": [{}, {}]}}, {"invocations": {"crystal": [{}, {}, {}]}}),
    ("another crystal", {"invocations": {"other": 0}}, {"invocations": {"other": [{}]}}),
    ("threads", {"threads": 1}, {"threads": 2}),
    ("thread turns", {"each_thread": {0: {"turns": 2}}}, {"each_thread": {0: {"turns": 1}}}),
    ("thread result", {"each_thread": {0: {"result": 42}}}, {"each_thread": {1: {"result": 42}}}),
    (
        "last turn",
        {"each_thread": {0: {"last_turn": {"terminated": True}}}},
        {"each_thread": {0: {"last_turn": {"terminated": False}}}},
    ),
    ("thread", {"thread": [{}, {"terminated": True}]}, {"thread": [{}]}),
    (
        "halves",
        {"thread": [{"role": "entity"}, {"role": "circle"}, {"role": "entity"}, {"role": "circle"}]},
        {"thread": [{"role": "entity"}, {"role": "entity"}, {"role": "entity"}, {"role": "circle"}]},
    ),
    ("error in a turn", {"observations": {1: {"is_error": True}}}, {"observations": {2: {"is_error": True}}}),
    ("content", {"observations": {1: {"content": "a"}}}, {"observations": {1: {"content": "no"}}}),
    ("part", {"observations": {1: {"content_contains": "net"}}}, {"observations": {1: {"content_contains": "x"}}}),
    ("no turn", {"observations": {1: {"content_contains": ""}}}, {"observations": {3: {"content_contains": ""}}}),
]


@pytest.mark.parametrize(("right", "wrong"), [each[1:] for each in RIGHT], ids=[each[0] for each in RIGHT])
def test_what_is_right_passes_and_what_is_wrong_does_not(right: dict[str, Any], wrong: dict[str, Any]) -> None:
    assert mismatches(case(right), STORY) == []
    assert len(mismatches(case(wrong), STORY)) >= 1


INVOCATIONS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"message_count": 3}, {"message_count": 2}),
    ({"message_roles": ["user", "assistant", "tool"]}, {"message_roles": ["user"]}),
    ({"first_message": {"role": "user", "content": "go"}}, {"first_message": {"role": "user", "content": "stop"}}),
    ({"last_message": {"role": "tool", "is_error": False}}, {"last_message": {"role": "tool", "is_error": True}}),
    ({"messages": [{"role": "user"}, {}, {"content": "a"}]}, {"messages": [{"role": "user"}, {}]}),
    ({"messages_include": ["go", "I look."]}, {"messages_include": ["go", "stop"]}),
    ({"messages_include": "a"}, {"messages_include": "hidden"}),
    ({"messages_exclude": "stop"}, {"messages_exclude": "hidden"}),
    ({"message_count_includes": "go"}, {"message_count_includes": "stop"}),
    ({"message_count_excludes": "stop"}, {"message_count_excludes": "go"}),
    ({"tools": ["done"]}, {"tools": []}),
    ({"tool_choice": "required"}, {"tool_choice": "auto"}),
]


@pytest.mark.parametrize(("right", "wrong"), INVOCATIONS)
def test_a_request_is_what_it_is(right: dict[str, Any], wrong: dict[str, Any]) -> None:
    assert mismatches(case({"invocations": {"crystal": [{}, right]}}), STORY) == []
    assert len(mismatches(case({"invocations": {"crystal": [{}, wrong]}}), STORY)) == 1


LOOMS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"turn_count": 2}, {"turn_count": 1}),
    ({"turns": [{}]}, {"turns": [{}, {}, {}]}),
    ({"call": {"system_prompt": "You are"}}, {"call": {"system_prompt": None}}),
    ({"call": {"temperature": None}}, {"call": {"temperature": 0.5}}),
    ({"entities": 1}, {"entities": 2}),
    ({"ids_unique": True}, {"ids_unique": False}),
    ({"turns": [{"id": "not_null"}]}, {"turns": [{"id": "t2"}]}),
    ({"turns": [{"parent_id": None}]}, {"turns": [{"parent_id": "not_null"}]}),
    ({"turns": [{}, {"parent_id": "turns[0].id"}]}, {"turns": [{}, {"parent_id": "turns[1].id"}]}),
    ({"turns": [{}, {"cantrip_id": "turns[0].cantrip_id"}]}, {"turns": [{}, {"parent_id": "turns[7].id"}]}),
    ({"turns": [{"entity_id": "parent"}]}, {"turns": [{"entity_id": "child"}]}),
    ({"turns": [{"sequence": 1}]}, {"turns": [{"sequence": 2}]}),
    ({"turns": [{"utterance": "I look."}]}, {"turns": [{"utterance": None}]}),
    ({"turns": [{"utterance_contains": "look"}]}, {"turns": [{"utterance_contains": "hear"}]}),
    ({"turns": [{"observation": "a"}]}, {"turns": [{"observation": "b"}]}),
    ({"turns": [{"observation_contains": "a"}]}, {"turns": [{"observation_contains": "b"}]}),
    ({"turns": [{"gate_calls": ["echo", "fetch"]}]}, {"turns": [{"gate_calls": ["echo"]}]}),
    (
        {"turns": [{"gate_calls": [{"gate": "echo", "result": "a", "args": {"text": "a"}}, "fetch"]}]},
        {"turns": [{"gate_calls": [{"gate": "echo", "result": "a", "is_error": True}, "fetch"]}]},
    ),
    ({"turns": [{"metadata": {"tokens_prompt": 10}}]}, {"turns": [{"metadata": {"tokens_cached": 10}}]}),
    (
        {"turns": [{"metadata": {"duration_ms": "greater_than(0)"}}]},
        {"turns": [{"metadata": {"duration_ms": "greater_than(2.5)"}}]},
    ),
    ({"turns": [{"reward": 0.5}]}, {"turns": [{"reward": None}]}),
    ({"turns": [{}, {"terminated": True}]}, {"turns": [{}, {"truncated": True}]}),
]


@pytest.mark.parametrize(("right", "wrong"), LOOMS)
def test_the_loom_is_what_it_is(right: dict[str, Any], wrong: dict[str, Any]) -> None:
    assert mismatches(case({"loom": right}), STORY) == []
    assert len(mismatches(case({"loom": wrong}), STORY)) >= 1


def test_names_of_entities_are_for_one_entity_each() -> None:
    child = replace(FIRST, id="t3", entity_id="e2", parent_id="t1")
    story = replace(STORY, turns=(FIRST, child, LAST))

    def found(*names: str) -> list[str]:
        return mismatches(case({"loom": {"turns": [{"entity_id": name} for name in names]}}), story)

    assert found("parent", "child", "parent") == []
    assert len(found("parent", "parent", "parent")) == 1
    assert len(found("parent", "child", "child")) >= 1
    assert len(found("parent", "child", "other")) >= 1


def test_an_error_that_nobody_expects_is_one() -> None:
    story = replace(STORY, error="ValueError: no")
    assert mismatches(case({"result": 42}), story) == ["raised: ValueError: no"]
    assert mismatches(case({"error": "no"}), story) == []
    assert len(mismatches(case({"error": "yes"}), story)) == 1
    assert len(mismatches(case({"error": "no"}), STORY)) == 1


def test_an_episode_that_fails_is_expected_to() -> None:
    failed = replace(STORY.episodes[0], ending="failed", error="the crystal broke", result=None)
    story = replace(STORY, episodes=(failed,))
    assert mismatches(case({"turns": 2}), story) == ["an episode failed: the crystal broke"]
    for expected in ({"error": "broke"}, {"failure": "broke"}, {"ending": "failed"}, {"endings": ["failed"]}):
        assert mismatches(case(expected), story) == []
    used_up = replace(STORY, episodes=(replace(failed, error=f"I could not go on: {USED_UP}"),))
    assert mismatches(case({"turns": 2}), used_up) == []


def test_a_stateless_crystal_is_shown_everything() -> None:
    stateless = Crystal(stateless=True)
    assert mismatches(case({"turns": 2}, stateless), STORY) == []
    first, second = STORY.requests["crystal"]
    cut = replace(STORY, requests={"crystal": (first, replace(second, messages=list(second.messages)[1:]))})
    assert mismatches(case({"turns": 2}, stateless), cut) == ["crystal was not shown the whole context"]


def test_a_crystal_that_failed_is_asked_again() -> None:
    retried = msgspec.convert(
        {"responses": [{"error": {"status": 429, "message": "no"}}, {"content": "ok"}], "retry_behavior": True}, Crystal
    )
    assert mismatches(case({"turns": 2}, retried), STORY) == []
    once = replace(STORY, requests={"crystal": STORY.requests["crystal"][:1]})
    assert mismatches(case({"turns": 2}, retried), once) == ["crystal failed and was not asked again"]


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        (1, "1", False),
        (None, "", False),
        ([1, {"a": 2}], (1, {"a": 2.0}), True),
        ([1], [1, 1], False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
    ],
)
def test_values_are_the_same_as_json_has_it(one: Any, other: Any, equal: bool) -> None:
    assert same(one, other) is equal
    assert same(other, one) is equal
