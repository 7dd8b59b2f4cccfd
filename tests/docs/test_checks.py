"""The page of the checks: every code is on it, and every example is what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from covenants import CODES, check, load_text
from leaves.catalogue import CATALOGUE
from tests.docs.examples import ROOT, START, Block, blocks, whole_file, write_code

PAGE = "checks.md"
NO_EXAMPLE = {"E101", "E102", "E108", "E210"}
OF_THE_TEXT = {"E103", "E104", "E105", "E106", "E107", "E109"}
ENVIRON = {"NATS_URL": "nats://demo:4222", "NATS_TOKEN": "canary"}
BLOCKS = [block for block in blocks(PAGE) if block.info.startswith("yaml")]


def codes(block: Block, folder: Path) -> list[str]:
    write_code(PAGE, folder)
    raw = block.section[:4] in OF_THE_TEXT and block.info == "yaml wrong"
    text = block.text if raw else whole_file(block.text)
    loaded = load_text(text.encode(), ENVIRON, base=folder)
    return [problem.code for problem in (loaded.problems if raw else check(loaded, CATALOGUE).problems)]


def test_every_code_is_explained_once_in_order() -> None:
    text = (ROOT / "docs" / PAGE).read_text(encoding="utf-8")
    assert re.findall(r"^### ([EW]\d+): (.*)$", text, re.MULTILINE) == list(CODES.items())


def test_every_code_has_an_example_of_wrong_and_right() -> None:
    wrong = {block.section[:4] for block in BLOCKS if block.info == "yaml wrong"}
    right = {block.section[:4] for block in BLOCKS if block.info == "yaml right"}
    assert wrong == set(CODES) - NO_EXAMPLE
    assert right == wrong - {"E103", "E405"}


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.info == "yaml wrong"], ids=lambda block: block.section)
def test_what_is_wrong_is_caught(block: Block, tmp_path: Path) -> None:
    assert block.section[:4] in codes(block, tmp_path)


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.info == "yaml right"], ids=lambda block: block.section)
def test_what_is_right_has_no_problem_at_all(block: Block, tmp_path: Path) -> None:
    assert codes(block, tmp_path) == []


def test_the_example_of_a_problem_is_one(tmp_path: Path) -> None:
    (shown,) = [block.text for block in blocks(PAGE) if not block.info]
    wrong = START.replace("- ChatAfferent", "- ChatAferent")
    (problem,) = check(load_text(wrong.encode(), {}), CATALOGUE).problems
    assert re.sub(r":\d+:", ":0:", f"{problem}\n", count=1) == re.sub(r":\d+:", ":0:", shown, count=1)


def test_what_coven_init_writes_is_right_and_what_this_repository_runs() -> None:
    assert check(load_text(START.encode(), {}), CATALOGUE).problems == ()
    first, _, rest = (ROOT / "coven.yaml").read_text(encoding="utf-8").partition("\n")
    assert first == "# yaml-language-server: $schema=./docs/coven.schema.json"
    assert rest == START
