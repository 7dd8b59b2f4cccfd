"""The page about spells and crystals of one's own: its files pass the check, its test prints what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from covenants import check, load_text
from leaves.catalogue import CATALOGUE
from tests.docs.examples import Block, blocks, whole_file, write_code

PAGE = "spells.md"
EXAMPLES = [block for block in blocks(PAGE) if block.info == "yaml"]


@pytest.mark.parametrize("block", EXAMPLES, ids=["substrate", "crystal"])
def test_the_example_passes_the_check(block: Block, tmp_path: Path) -> None:
    write_code(PAGE, tmp_path)
    loaded = load_text(whole_file(block.text).encode(), {}, base=tmp_path)
    assert [str(problem) for problem in check(loaded, CATALOGUE).problems] == []


def test_the_test_of_the_page_prints_what_it_says(tmp_path: Path) -> None:
    write_code(PAGE, tmp_path)
    (program,) = (block for block in blocks(PAGE) if block.info == "python" and "asyncio.run" in block.text)
    (printed,) = (block for block in blocks(PAGE) if block.info == "text")
    command = [sys.executable, "-c", program.text]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.stderr, ran.stdout) == ("", printed.text)
