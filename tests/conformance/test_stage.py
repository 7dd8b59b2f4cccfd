"""The stage: cases are really run, and what they expect wrongly is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.checks import mismatches
from tests.conformance.loading import SuiteError, load_text
from tests.conformance.stage import play
from tests.conformance.teeth import toothless

CASE = """\
- rule: CIRCLE-10
  name: a file is read
  setup:
    crystal:
      responses:
        - tool_calls: [{ gate: read, args: { path: a.txt } }]
        - tool_calls: [{ gate: done, args: { answer: "ok" } }]
    circle:
      gates: [done, { name: read, dependencies: { root: /data } }]
      wards: [{ max_turns: 10 }]
    filesystem: { /data/a.txt: "milk" }
  action: { cast: { intent: "read" } }
  expect: { result: "ok", turn_1_observation: { content: "milk", is_error: false } }
"""


async def test_a_case_is_run_with_real_files(tmp_path: Path) -> None:
    (case,) = load_text(CASE, "suite.yaml")
    story = await play(case, "tools", tmp_path)
    assert mismatches(case, story) == []
    assert toothless(case, story) == []
    assert (tmp_path / "data/a.txt").read_text(encoding="utf-8") == "milk"
    assert story.runs == ("read",)


async def test_a_wrong_expectation_fails(tmp_path: Path) -> None:
    (case,) = load_text(CASE.replace('content: "milk"', 'content: "eggs"'), "suite.yaml")
    story = await play(case, "tools", tmp_path)
    assert mismatches(case, story) == [
        "observations: turn_1_observation.content: expected 'eggs', found ['milk', 'milk']"
    ]


async def test_what_is_raised_is_told(tmp_path: Path) -> None:
    (case,) = load_text(CASE.replace('intent: "read"', "intent: null"), "suite.yaml")
    story = await play(case, "tools", tmp_path)
    assert story.error is not None
    assert "intent is required" in story.error
    assert story.turns == ()


@pytest.mark.parametrize(
    ("line", "instead", "error"),
    [
        ("{ name: read, dependencies: { root: /data } }", "rite", "suite.yaml:1: gate 'rite' has neither result"),
        ('{ intent: "read" }', '{ intent: "read", crystal: other }', "suite.yaml:1: there is no crystal 'other'"),
    ],
)
async def test_what_is_not_there_is_an_error_of_the_suite(line: str, instead: str, error: str, tmp_path: Path) -> None:
    (case,) = load_text(CASE.replace(line, instead), "suite.yaml")
    with pytest.raises(SuiteError) as caught:
        await play(case, "tools", tmp_path)
    assert str(caught.value).startswith(error)
