"""The page of `coven.yaml`: its tables are those of the code, and its examples pass the check."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from covenants import check, load_text
from leaves.catalogue import CATALOGUE
from tests.docs.examples import ROOT, Block, blocks, whole_file, write_code

PAGE = "configuration.md"
EXAMPLES = [block for block in blocks(PAGE) if block.info == "yaml"]


@pytest.mark.parametrize("block", EXAMPLES, ids=lambda block: block.text.splitlines()[-1].strip())
def test_the_example_passes_the_check(block: Block, tmp_path: Path) -> None:
    write_code(PAGE, tmp_path)
    loaded = load_text(whole_file(block.text).encode(), {"NATS_TOKEN": "canary"}, base=tmp_path)
    assert [str(problem) for problem in check(loaded, CATALOGUE).problems] == []


def test_the_tables_are_those_of_the_code() -> None:
    script = runpy.run_path(str(ROOT / "docs/generate.py"))
    assert (ROOT / "docs" / PAGE).read_text(encoding="utf-8") == script["page_text"](), "run `python docs/generate.py`"


def test_every_option_has_a_table() -> None:
    structs = runpy.run_path(str(ROOT / "docs/generate.py"))["STRUCTS"]
    text = (ROOT / "docs" / PAGE).read_text(encoding="utf-8")
    assert [name for name in structs if f"<!-- table: {name} -->" not in text] == []
