"""The page about crystals: its program prints what it says, and its configurations are right."""

from __future__ import annotations

import os
import subprocess
import sys

from branches.agents.permission import VARIABLE
from branches.catalogue import LeafKind
from covenants import Severity, check, load_text
from leaves.catalogue import CATALOGUE
from tests.docs.examples import ROOT, blocks, whole_file

PAGE = "crystals.md"
BLOCKS = blocks(PAGE)
KEYS = dict.fromkeys(("OPENROUTER_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"), "canary")


def test_the_program_prints_what_the_page_says() -> None:
    (program,) = (block for block in BLOCKS if block.info == "python")
    (printed,) = (block for block in BLOCKS if block.info == "text")
    environ = {name: value for name, value in os.environ.items() if name != VARIABLE}
    ran = subprocess.run(
        [sys.executable, "-c", program.text], cwd=ROOT, env=environ, capture_output=True, text=True, timeout=60
    )
    assert (ran.stderr, ran.stdout) == ("", printed.text)


def test_configurations_are_right() -> None:
    for block in BLOCKS:
        if block.info == "yaml":
            agents = block.text.replace("agents:", "branches:\n  agents:", 1).replace("\n  ", "\n    ")
            agents = agents.replace("branches:\n    agents:", "branches:\n  agents:")
            checked = check(load_text(whole_file(agents).encode(), KEYS), CATALOGUE)
            assert [str(each) for each in checked.problems if each.severity is Severity.ERROR] == []


def test_every_crystal_is_on_the_page() -> None:
    page = (ROOT / "docs" / PAGE).read_text(encoding="utf-8")
    assert [name for name in CATALOGUE.of(LeafKind.CRYSTAL) if f"| `{name}` |" not in page] == []
