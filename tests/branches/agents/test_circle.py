"""The circle reads what the crystal wrote: nothing leaves it but calls of its gates with JSON objects."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branches.agents.circle import Circle, Done, GateCall, Observation
from branches.agents.crystal import ToolCall
from branches.agents.gates import DONE
from branches.agents.wards import Wards
from policies import action_result, error_result
from tests.branches.agents.bench import ECHO

CIRCLE = Circle((DONE, ECHO), Wards(max_turns=10))


def read(gate: str, arguments: str) -> GateCall | Done | Observation:
    return CIRCLE.read(ToolCall("call_1", gate, arguments))


def test_a_call_of_a_gate_may_pass() -> None:
    call = read("echo", '{"text": "hi"}')
    assert isinstance(call, GateCall)
    assert call.arguments == {"text": "hi"}


@pytest.mark.parametrize("arguments", ["", "  ", "{}"])
def test_no_arguments_are_an_empty_object(arguments: str) -> None:
    call = read("echo", arguments)
    assert isinstance(call, GateCall)
    assert call.arguments == {}


@pytest.mark.parametrize(
    ("gate", "arguments", "result"),
    [
        ("nope", "{}", "unknown_gate: there is no gate 'nope'; there are: done, echo"),
        ("echo", "[1]", "bad_arguments: they must be a JSON object"),
        ("echo", '{"text": ', "bad_arguments: they are not valid JSON (Input data was truncated)"),
        ("done", "{}", "bad_arguments: `done` needs `answer`"),
    ],
)
def test_a_call_that_cannot_pass_is_an_error_that_the_entity_sees(gate: str, arguments: str, result: str) -> None:
    observation = read(gate, arguments)
    assert isinstance(observation, Observation)
    assert observation.is_error
    assert observation.result == result
    assert (observation.gate, observation.tool_call_id) == (gate, "call_1")
    assert observation.text == f"Error: {result}"


@pytest.mark.parametrize(
    "arguments", ['{"a": NaN}', '{"a": "\\ud800"}', "[" * 100_000, '{"a":' * 500 + "1" + "}" * 500]
)
def test_what_json_cannot_hold_does_not_pass(arguments: str) -> None:
    assert isinstance(read("echo", arguments), Observation)


def test_done_ends_with_its_answer() -> None:
    for arguments, answer in (('{"answer": "42"}', "42"), ('{"answer": {"x": [1]}}', {"x": (1,)})):
        done = read("done", arguments)
        assert isinstance(done, Done)
        assert done.answer == answer
        assert not done.observation.is_error


def test_outcomes_become_observations() -> None:
    call = read("echo", '{"text": "hi"}')
    assert isinstance(call, GateCall)
    heard = call.observation(action_result("gate", {"result": {"n": [1]}}))
    assert (heard.is_error, heard.text, heard.args) == (False, '{"n":[1]}', {"text": "hi"})
    fault = call.observation(error_result("gate", "denied", "not here"))
    assert (fault.is_error, fault.text) == (True, "Error: denied: not here")


@given(st.text(), st.text())
def test_whatever_the_crystal_writes_is_read(gate: str, arguments: str) -> None:
    assert isinstance(read(gate, arguments), GateCall | Done | Observation)
    assert isinstance(read("echo", arguments), GateCall | Observation)
