"""Pages with programs: each prints just what the block behind it says."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import pytest

from tests.docs.examples import ROOT, Block, blocks

PROGRAMS = [
    pytest.param(program, printed, id=f"{page} block {number}")
    for page in ("cantrips.md", "loom.md", "policies.md")
    for number, (program, printed) in enumerate(pairwise(blocks(page)), 1)
    if program.info == "python"
]


@pytest.mark.parametrize(("program", "printed"), PROGRAMS)
def test_programs_print_what_the_page_says(program: Block, printed: Block) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", program.text], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.stderr == ""
    assert ran.stdout == printed.text
