"""The examples run as their README says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def coven(folder: Path, *arguments: str, said: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "coven", *arguments],
        cwd=folder,
        input=said,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ},
        check=False,
    )


def test_dice(tmp_path: Path) -> None:
    folder = shutil.copytree(EXAMPLES / "dice", tmp_path / "dice")
    assert coven(folder, "check").returncode == 0
    ran = coven(folder, "run", said="two dice\n" + "word " * 101 + "\n")
    assert ran.returncode == 0, ran.stderr
    first, second = ran.stdout.splitlines()
    assert re.fullmatch(r'The dice show \{"dice":\[[1-6],[1-6]\]\}', first), first
    assert "1 to 100 dice fit on the table" in second
    assert "SpellFault" in coven(folder, "journal", "read", "spellcasting").stdout


def test_search_agent(tmp_path: Path) -> None:
    """What the README shows, command by command."""
    folder = shutil.copytree(EXAMPLES / "search_agent", tmp_path / "search_agent")
    shown = re.findall(r"^```console\n(.*?)^```$", (folder / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    commands = [command for block in shown for command in re.split(r"^\$ ", block, flags=re.MULTILINE) if command]
    assert commands.pop(0) == "cd examples/search_agent\n"
    assert len(commands) == 5
    for command in commands:
        line, _, expected = command.partition("\n")
        ran = subprocess.run(
            ["bash", "-c", line.replace("python ", f"{sys.executable} ", 1)],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONPATH": str(EXAMPLES.parent)},
            check=False,
        )
        if expected == "Killed\n":
            assert ran.returncode in (-9, 137), ran.stderr
        else:
            assert (ran.returncode, ran.stdout) == (0, expected), ran.stderr
