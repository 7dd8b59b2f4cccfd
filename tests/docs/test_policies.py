"""The page of the policies: its programs print what it says, and it names every entry."""

from __future__ import annotations

import subprocess
import sys

import pytest

from policies import RUN_KINDS
from tests.docs.examples import ROOT, Block, blocks

PAGE = "policies.md"
BLOCKS = blocks(PAGE)
PROGRAMS = [(block, BLOCKS[number + 1]) for number, block in enumerate(BLOCKS) if block.info == "python"]


@pytest.mark.parametrize(("program", "printed"), PROGRAMS, ids=range(len(PROGRAMS)))
def test_programs_print_what_the_page_says(program: Block, printed: Block) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", program.text], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.stderr == ""
    assert ran.stdout == printed.text


def test_every_entry_is_told() -> None:
    rows = [line.split("|")[1] for line in (ROOT / "docs" / PAGE).read_text().splitlines() if line.startswith("| `")]
    told = {name.strip("` ") for row in rows for name in row.split(",")}
    assert told == {kind.kind() for kind in RUN_KINDS}
