"""The page about spells and crystals of one's own: its files pass the check, its test prints what it says."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import msgspec
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


def test_what_a_model_says_is_no_option_of_a_program(tmp_path: Path) -> None:
    write_code(PAGE, tmp_path)
    changes = runpy.run_path(str(tmp_path / "release.py"))["Changes"]
    assert msgspec.convert({"since": "v1.0.0"}, changes).since == "v1.0.0"
    with pytest.raises(msgspec.ValidationError, match="regex"):
        msgspec.convert({"since": "--output=taken"}, changes)
