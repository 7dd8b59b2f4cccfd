"""The JSON Schema: in step with the code, right about right files, and against wrong ones."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from covenants import json_schema
from tests.covenants.cases import CASES, Case
from tests.covenants.configs import CATALOGUE, MARK, RIGHT, edited

ROOT = Path(__file__).parents[2]
SCHEMA: Any = json_schema(CATALOGUE)
VISIBLE = {"E110", "E111", "E112", "E113", "E114", "E115"}
UNSEEN = {
    "via without a function",
    "a server without a scheme",
    "a branch name that is taken",
    "options of no crystal",
}


def complaints(text: str, schema: Any = SCHEMA) -> list[str]:
    value = YAML(typ="safe", pure=True).load(text)
    return [error.message for error in Draft202012Validator(schema).iter_errors(value)]


def test_the_file_in_docs_is_what_the_code_makes() -> None:
    script = runpy.run_path(str(ROOT / "docs/generate.py"))
    assert (ROOT / "docs/coven.schema.json").read_text(encoding="utf-8") == script["schema_text"](), (
        "the model or a leaf has changed: run `python docs/generate.py`"
    )


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    json.dumps(SCHEMA)


def test_a_right_file_passes() -> None:
    assert complaints(RIGHT) == []


def test_the_file_of_this_repository_names_it_and_passes() -> None:
    text = (ROOT / "coven.yaml").read_text(encoding="utf-8")
    first, _, _ = text.partition("\n")
    _, _, path = first.partition("$schema=")
    assert complaints(text, json.loads((ROOT / path).read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.code in VISIBLE and case.name not in UNSEEN], ids=lambda case: case.name
)
def test_what_is_wrong_with_the_form_is_seen(case: Case) -> None:
    text = edited(case.edits).replace(MARK, "")
    assert complaints(text)


@pytest.mark.parametrize(
    "section",
    [
        "branches: {chat: null, agents: null, spellcasting: null}",
        "branches: {critics: {branch: agents, crystal: anthropic, options: {max_tokens: '${N}', api_key: '${K}'}}}",
        "branches: {chat: {leaf: pager, use: pager.py:Pager, options: {x: 1}}}",
        "branches: {spellcasting: {weather: {use: weather.py:Weather, unit: C}, http: {}, fs: }}",
        "nats: nats://host:4222",
        "nats: {url: nats://host:4222, token: '${T}', replicas: 3}",
        "durability: process",
        "covenant: [{route: A -> B, map: {a: b, c: 1, d: null, e: true}, when: true, max_hops: 3, start: end}]",
        "covenant: [{route: A -> B, approve: true}, {route: A -> C, approve: {chat: board, approvers: [ada]}}]",
    ],
)
def test_what_the_check_takes_the_schema_takes(section: str) -> None:
    base = {"coven": "hearth", "branches": {}, "covenant": []}
    value = base | YAML(typ="safe", pure=True).load(section)
    assert [error.message for error in Draft202012Validator(SCHEMA).iter_errors(value)] == []
