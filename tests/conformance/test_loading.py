"""How a suite is read: nothing that stands in it is passed over."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.case import Case, Repeated
from tests.conformance.loading import SuiteError, load, load_text

MINIMAL = """\
- rule: LOOP-1
  name: a case
  setup:
    crystal: { responses: [{ content: "hi" }] }
    circle:
      gates: [done]
      wards: [{ max_turns: 10 }]
  action:
    cast: { intent: "go" }
  expect:
    result: "hi"
"""


def case(text: str = MINIMAL) -> Case:
    (read,) = load_text(text, "suite.yaml")
    return read


def test_a_case_knows_where_it_stands() -> None:
    cases = load_text(f"# a suite\n\n{MINIMAL}\n{MINIMAL}", "suite.yaml")
    assert [each.where for each in cases] == ["suite.yaml:3", "suite.yaml:15"]


def test_a_suite_may_be_any_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(f"---\n{MINIMAL}", encoding="utf-8")
    assert load(path)[0].where == f"{path}:2"


@pytest.mark.parametrize(
    ("line", "instead", "error"),
    [
        ("name: a case", "name: a case\n  expected: 1", "suite.yaml:3: unknown key 'expected'"),
        ("    circle:", "    cirkle: 1\n    circle:", "suite.yaml:5: unknown key 'cirkle'"),
        ("gates: [done]", "gates: [done]\n      gate: 1", "suite.yaml:7: unknown key 'gate' in circle"),
        ("gates: [done]", "gates: [{ name: x, nam: y }]", "suite.yaml:6: unknown key 'nam' in circle.gates[0]"),
        ("max_turns: 10", "max_turn: 10", "suite.yaml:7: unknown key 'max_turn' in circle.wards[0]"),
        ('content: "hi"', 'contents: "hi"', "suite.yaml:4: unknown key 'contents' in responses[0]"),
        ('intent: "go"', 'intent: "go", entity: 1', "suite.yaml:9: unknown key 'entity' in cast"),
        ('result: "hi"', 'result: "hi"\n    resullt: 1', "suite.yaml:12: unknown key 'resullt'"),
        ('result: "hi"', "turn_1_observation: { error: true }", "suite.yaml:11: unknown key 'error'"),
        ('result: "hi"', "thread_0: { turn: 1 }", "suite.yaml:11: unknown key 'turn'"),
        ('result: "hi"', "crystal_invocations: [{ message: 1 }]", "suite.yaml:11: unknown key 'message'"),
        ('result: "hi"', "loom: { turns: [{}, { seq: 1 }] }", "suite.yaml:11: unknown key 'seq' in loom.turns[1]"),
        ('result: "hi"', "observations: {}", "suite.yaml:11: unknown key 'observations'"),
        ("name: a case", "name: a case\n  where: here", "suite.yaml:3: unknown key 'where'"),
    ],
)
def test_an_unknown_key_is_an_error_with_its_place(line: str, instead: str, error: str) -> None:
    assert line in MINIMAL
    with pytest.raises(SuiteError) as caught:
        case(MINIMAL.replace(line, instead))
    assert str(caught.value).startswith(error)


@pytest.mark.parametrize(
    ("line", "instead", "error"),
    [
        (
            "max_turns: 10",
            "max_turns: ten",
            "suite.yaml:7: Expected `int | null`, got `str` in circle.wards[0].max_turns",
        ),
        ('result: "hi"', "turns: many", "suite.yaml:11: Expected `int`, got `str` in turns"),
        ('result: "hi"', "crystal_invocations: many", "suite.yaml:11: invocations are a number or a list"),
        ("rule: LOOP-1", "rule: LOOP", "suite.yaml:1: 'LOOP' is no rule"),
        ('    cast: { intent: "go" }', "    {}", "suite.yaml:9: a step does one thing"),
        ('    result: "hi"', "    {}", "suite.yaml:11: an expect that expects nothing"),
        ('  expect:\n    result: "hi"\n', "", "suite.yaml:1: a case has setup, action and expect, or none of them"),
    ],
)
def test_a_wrong_value_is_an_error_with_its_place(line: str, instead: str, error: str) -> None:
    assert line in MINIMAL
    with pytest.raises(SuiteError) as caught:
        case(MINIMAL.replace(line, instead))
    assert str(caught.value) == error


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("- a: [1\n", "suite.yaml:2: not YAML"),
        (MINIMAL.replace("name: a case", "name: a case\n  name: twice"), "suite.yaml:3: not YAML: found duplicate key"),
        ("rule: LOOP-1\n", "suite.yaml:1: a suite is a list of cases"),
        ("- just text\n", "suite.yaml: a mapping is needed here"),
    ],
)
def test_what_is_no_suite_is_said(text: str, error: str) -> None:
    with pytest.raises(SuiteError) as caught:
        load_text(text, "suite.yaml")
    assert str(caught.value).startswith(error)


def test_a_case_may_be_skipped_or_left_empty_and_says_so() -> None:
    head = "- rule: LOOP-1\n  name: a case\n"
    assert case(head).skipped == "the suite leaves it empty"
    assert case(f"{head}  skip: true\n").skipped == "the suite skips it"
    assert case(f"{head}  skip: held elsewhere\n").skipped == "held elsewhere"
    assert case().skipped is None


def test_crystals_invocations_observations_and_threads_are_keys_by_pattern() -> None:
    text = MINIMAL.replace("    circle:", "    child_crystal_l1: { name: other }\n    circle:").replace(
        '    result: "hi"',
        "    crystal_invocations: 2\n    child_crystal_l1_invocations: [{ message_count: 1 }]\n"
        "    turn_12_observation: { is_error: true }\n    thread_0: { turns: 1 }",
    )
    read = case(text)
    assert read.setup is not None
    assert read.expect is not None
    assert list(read.setup.crystals) == ["crystal", "child_crystal_l1"]
    assert (read.expect.invocations["crystal"], list(read.expect.invocations)) == (2, ["crystal", "child_crystal_l1"])
    assert read.expect.observations[12].is_error is True
    assert read.expect.each_thread[0].turns == 1


def test_a_long_text_need_not_be_written_down() -> None:
    read = case(MINIMAL.replace('content: "hi"', 'content: { repeat: "ab", times: 3 }'))
    assert read.setup is not None
    crystal = read.setup.crystals["crystal"]
    assert crystal is not None
    content = crystal.responses[0].content
    assert isinstance(content, Repeated)
    assert content.text == "ababab"
