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
