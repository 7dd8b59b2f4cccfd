"""The page about testing: its programs print what it says, and all that `coven.testing` has is told."""

from __future__ import annotations

import subprocess
import sys

import pytest

import coven.testing
from tests.docs.examples import ROOT, Block, blocks

PAGE = "testing.md"
BLOCKS = blocks(PAGE)
PROGRAMS = [(block, BLOCKS[number + 1 : number + 2]) for number, block in enumerate(BLOCKS) if block.info == "python"]


@pytest.mark.parametrize(("program", "printed"), PROGRAMS, ids=range(len(PROGRAMS)))
def test_programs_print_what_the_page_says(program: Block, printed: list[Block]) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", program.text], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.stderr == ""
    assert ran.stdout == "".join(block.text for block in printed if not block.info)


def test_everything_is_told() -> None:
    page = (ROOT / "docs" / PAGE).read_text(encoding="utf-8")
    exceptions = {"Forbidding", "ScriptExhausted"}
    assert [name for name in coven.testing.__all__ if name not in page and name not in exceptions] == []
