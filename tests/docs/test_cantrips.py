"""The page of cantrips: its programs print what it says, and its YAML is checked."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest
from ruamel.yaml import YAML

from branches.agents.options import AgentsOptions
from tests.docs.examples import ROOT, Block, blocks

BLOCKS = blocks("cantrips.md")
PROGRAMS = [(block, BLOCKS[number + 1]) for number, block in enumerate(BLOCKS) if block.info == "python"]


@pytest.mark.parametrize(("program", "printed"), PROGRAMS, ids=range(len(PROGRAMS)))
def test_programs_print_what_the_page_says(program: Block, printed: Block) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", program.text], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.stderr == ""
    assert ran.stdout == printed.text


def test_the_yaml_is_what_an_agents_instance_takes() -> None:
    (text,) = [block.text for block in BLOCKS if block.info == "yaml"]
    options = msgspec.convert(YAML(typ="safe").load(text)["agents"], AgentsOptions)
    assert options.folding is not None
