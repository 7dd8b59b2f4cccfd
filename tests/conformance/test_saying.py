"""Which mediums a case allows, and how its gate calls are said in code."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.conformance.case import Call, Circle
from tests.conformance.loading import load_text
from tests.conformance.saying import NotSayable, code_of, mediums

CIRCLE = msgspec.convert(
    {
        "gates": [
            "done",
            "echo",
            "fetch",
            {"name": "broken", "behavior": "throw"},
            {"name": "big", "result": "x", "ephemeral": True},
        ],
        "wards": [{"max_turns": 1}, {"remove_gate": "fetch"}],
    },
    Circle,
)
ALL = ("tools", "javascript", "python")


def allowed(response: str = 'content: "hi"', circle: str = "", expect: str = "turns: 1") -> tuple[str, ...]:
    (case,) = load_text(
        f"- rule: LOOP-1\n  name: a case\n  setup:\n    crystal: {{ responses: [{{ {response} }}] }}\n"
        f"    circle: {{ gates: [done, echo], wards: [] {circle} }}\n"
        f'  action: {{ cast: {{ intent: "go" }} }}\n  expect: {{ {expect} }}\n',
        "suite.yaml",
    )
    return mediums(case)


@pytest.mark.parametrize(
    ("given", "languages"),
    [
        ({}, ALL),
        ({"response": "tool_calls: [{ gate: echo, args: { text: 1 } }]"}, ALL),
        ({"response": 'code: "done(1)"'}, ("javascript",)),
        ({"response": 'code: { javascript: "done(1)", python: "done(1)" }'}, ("javascript", "python")),
        ({"circle": ", type: code"}, ("javascript", "python")),
        ({"circle": ", type: tools"}, ("tools",)),
        ({"circle": ", medium: python"}, ("python",)),
        ({"response": "tool_calls: [{ gate: echo, id: a, args: { text: 1 } }]"}, ("tools",)),
        ({"response": 'tool_calls: [{ gate: echo, arguments: "{" }]'}, ("tools",)),
        ({"response": "tool_calls: [{ gate: nothing, args: {} }]"}, ("tools",)),
        ({"expect": "crystal_received_tools: [{ name: done }]"}, ("tools",)),
        ({"expect": "crystal_invocations: [{ tools: [done] }]"}, ("tools",)),
        ({"expect": "crystal_invocations: [{ messages: [{ role: user }, { role: tool }] }]"}, ("tools",)),
        ({"expect": "crystal_invocations: [{ messages: [{ role: user }] }]"}, ALL),
    ],
)
def test_a_case_runs_on_every_medium_that_it_allows(given: dict[str, Any], languages: tuple[str, ...]) -> None:
    assert allowed(**given) == languages


def test_a_case_that_no_medium_allows_is_an_error() -> None:
    with pytest.raises(NotSayable, match="no medium allows this case"):
        allowed(response='tool_calls: [{ gate: echo, arguments: "{" }]', circle=", medium: python")


def test_native_calls_are_not_said_in_code() -> None:
    native = 'tool_calls: [{ gate: execute, arguments: "{" }], native: true'
    assert allowed(response=native, circle=", medium: python") == ("python",)


def test_calls_become_lines_of_code_that_show_what_they_give() -> None:
    calls = [
        Call(gate="echo", args={"text": "it's", "more": [None, True, {"a": 1.5}]}),
        Call(gate="done", args={"answer": "ok"}),
    ]
    assert code_of(calls, CIRCLE, "javascript") == (
        'print(echo({"text": "it\'s", "more": [null, true, {"a": 1.5}]}));\ndone({"answer": "ok"});'
    )
    assert code_of(calls, CIRCLE, "python") == (
        'print(echo(text="it\'s", more=[None, True, {"a": 1.5}]))\ndone(answer="ok")'
    )


def test_what_may_fail_stands_last_or_is_not_said() -> None:
    last = [Call(gate="echo", args={}), Call(gate="broken", args={})]
    assert code_of(last, CIRCLE, "python").endswith("print(broken())")
    for gate in ("broken", "fetch"):
        with pytest.raises(NotSayable, match="keep the calls that follow"):
            code_of([Call(gate=gate, args={}), Call(gate="echo", args={})], CIRCLE, "python")


def test_what_is_ephemeral_is_not_said() -> None:
    with pytest.raises(NotSayable, match="ephemeral"):
        code_of([Call(gate="big", args={})], CIRCLE, "python")


def test_arguments_without_names_are_for_javascript_alone() -> None:
    calls = [Call(gate="echo", args={"not a name": 1})]
    assert code_of(calls, CIRCLE, "javascript") == 'print(echo({"not a name": 1}));'
    with pytest.raises(NotSayable, match="no names in Python"):
        code_of(calls, CIRCLE, "python")
