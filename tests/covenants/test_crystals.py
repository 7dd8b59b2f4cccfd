"""A crystal and its options, as a configuration names them."""

from __future__ import annotations

import pytest

from branches.secret import Secret
from covenants import Checked, check, load_text
from leaves.catalogue import CATALOGUE
from leaves.crystals.anthropic import AnthropicOptions
from tests.covenants.configs import RIGHT

KEYS = {"ANTHROPIC_API_KEY": "canary"}


def checked(crystal: str, environ: dict[str, str] = KEYS) -> Checked:
    return check(load_text(RIGHT.replace("crystal: rehearsal", crystal).encode(), environ), CATALOGUE)


def crystal_options(crystal: str, environ: dict[str, str] = KEYS) -> object:
    found = checked(crystal, environ)
    assert found.config is not None, found.problems
    return found.config.branches["agents"].leaves["anthropic"].options


def test_options_stand_below_the_name_or_beside_it():
    wanted = AnthropicOptions(model="claude-opus-5-5", max_tokens=100)
    assert crystal_options("crystal: {anthropic: {model: claude-opus-5-5, max_tokens: 100}}") == wanted
    assert crystal_options("crystal: anthropic\n    options: {model: claude-opus-5-5, max_tokens: 100}") == wanted
    assert crystal_options("crystal: anthropic") == crystal_options("crystal: {anthropic: }") == AnthropicOptions()


def test_the_key_is_named_and_may_have_another_name():
    assert [problem.code for problem in checked("crystal: anthropic", {}).problems] == ["E402"]
    options = crystal_options("crystal: {anthropic: {api_key: '${MINE}'}}", {"MINE": "canary"})
    assert options == AnthropicOptions(api_key=Secret("${MINE}", {}))


def test_an_unknown_option_is_found_where_it_stands():
    (problem,) = checked("crystal: {anthropic: {modle: claude-opus-5-5}}").problems
    assert (problem.code, "modle" in problem.message, "model" in problem.hint) == ("E110", True, True)


@pytest.mark.parametrize(
    ("crystal", "reason"),
    [
        ("crystal: {openai: {model: gpt-4.1, effort: low}}", "takes no `effort`"),
        ("crystal: {openai: {model: gpt-4.1-mini, summary: auto}}", "takes no `summary`"),
        ("crystal: {anthropic: {thinking: adaptive, thinking_tokens: 2000}}", "keep one"),
        ("crystal: {anthropic: {max_tokens: 2000, thinking_tokens: 2000}}", "must be fewer"),
        ("crystal: {anthropic: {model: claude-haiku-4-5, max_tokens: 64001}}", "at most 64,000 tokens"),
    ],
)
def test_options_that_the_model_does_not_take_are_refused_where_they_stand(crystal: str, reason: str):
    keys = {**KEYS, "OPENAI_API_KEY": "canary"}
    (problem,) = checked(f"{crystal}\n    call: {{sampling: {{max_tokens: 9}}}}", keys).problems
    assert (problem.code, problem.line) == ("E112", 6)
    assert reason in problem.message


def test_options_that_are_no_mapping_are_refused_and_nothing_else_is_said_of_them():
    (problem,) = checked("crystal: {openai: 5}", {"OPENAI_API_KEY": "canary"}).problems
    assert problem.code == "E112"


def test_a_sampling_option_that_the_model_does_not_take_is_refused_where_it_stands():
    (problem,) = checked("crystal: anthropic\n    call: {sampling: {max_tokens: 9, temperature: 0.5}}").problems
    assert (problem.code, problem.line) == ("E219", 7)
    assert "`temperature`" in problem.message
    call, key = "call: {sampling: {temperature: 0.5}}", {"OPENAI_API_KEY": "canary"}
    assert checked(f"crystal: {{openai: {{model: gpt-5}}}}\n    {call}", key).errors
    assert not checked(f"crystal: {{openai: {{model: gpt-4.1}}}}\n    {call}", key).errors
    assert not checked("crystal: openai\n    call: {sampling: {stop: [END]}}", key).errors, (
        "which the crystal simulates"
    )
