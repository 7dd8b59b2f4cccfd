"""The page of the loom: its commands exist, its fields are those of a line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from branches.agents.loom import Loom, Turn, TurnMetadata, export_loom
from tests.docs.examples import ROOT, blocks

PAGE = "loom.md"
BLOCKS = blocks(PAGE)


def test_commands_do_what_the_page_says(tmp_path: Path) -> None:
    folder, turn = tmp_path / "hearth", ""

    def coven(*arguments: str) -> str:
        ran = subprocess.run(
            [sys.executable, "-m", "coven", *arguments],
            cwd=folder if folder.exists() else tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    coven("init", str(folder))
    coven("cast", "--session", "console", "what files are here?")
    (commands,) = [block.text for block in BLOCKS if block.info == "console"]
    for command in commands.splitlines():
        printed = coven(*command.removeprefix("$ coven ").replace("TURN", turn).split())
        if command.endswith("-o json"):
            turn = json.loads(printed)["turns"][0]["id"]
    assert len((folder / "turns.jsonl").read_text().splitlines()) >= 1


def test_every_field_of_a_line_is_told() -> None:
    page = (ROOT / "docs" / PAGE).read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    told = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    (line,) = export_loom(
        Loom(
            [
                Turn(
                    id="t",
                    parent_id=None,
                    cantrip_id="c",
                    entity_id="e",
                    sequence=1,
                    utterance="",
                    observation="",
                    metadata=TurnMetadata(timestamp=""),
                )
            ]
        )
    )
    assert json.loads(line).keys() <= told
    assert {*Turn.__struct_fields__, "call"} == told
