"""The examples run as their README says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def coven(folder: Path, *arguments: str, said: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "coven", *arguments],
        cwd=folder,
        input=said,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def killed(folder: Path, said: str, fault: str) -> bool:
    """Say this to a coven that waits for more until it kills itself; whether it did."""
    running = subprocess.Popen(
        [sys.executable, "-m", "coven", "run"],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "COVEN_FAULT": fault},
    )
    assert running.stdin is not None
    with running.stdin:
        running.stdin.write(said)
        running.stdin.flush()
        return running.wait(60) == -9


def test_dice(tmp_path: Path) -> None:
    folder = shutil.copytree(EXAMPLES / "dice", tmp_path / "dice")
    assert coven(folder, "check").returncode == 0
    ran = coven(folder, "run", said="two dice\n" + "word " * 101 + "\n")
    assert ran.returncode == 0, ran.stderr
    first, second = ran.stdout.splitlines()
    assert re.fullmatch(r'The dice show \{"dice":\[[1-6],[1-6]\]\}', first), first
    assert "1 to 100 dice fit on the table" in second
    assert "SpellFault" in coven(folder, "journal", "read", "spellcasting").stdout


def follow_readme(folder: Path) -> None:
    """Do what the README shows, command by command, and see what it shows."""
    shown = re.findall(r"^```console\n(.*?)^```$", (folder / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    commands = [command for block in shown for command in re.split(r"^\$ ", block, flags=re.MULTILINE) if command]
    assert commands.pop(0) == f"cd examples/{folder.name}\n"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for command in commands:
        line, _, expected = command.partition("\n")
        ran = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PATH": path, "PYTHONPATH": str(EXAMPLES.parent)},
            check=False,
        )
        if expected == "Killed\n":
            assert ran.returncode in (-9, 137), ran.stderr
        else:
            assert (ran.returncode, ran.stdout) == (0, expected), ran.stderr


@pytest.mark.parametrize("name", ["newsroom", "search_agent"])
def test_what_the_readme_shows_is_what_comes(name: str, tmp_path: Path) -> None:
    follow_readme(shutil.copytree(EXAMPLES / name, tmp_path / name))


def test_of_two_agents_that_send_each_other_work_each_does_it_once(tmp_path: Path) -> None:
    """Killed at every other answer of the editor, the writer strikes the same words as undisturbed."""
    folder = shutil.copytree(EXAMPLES / "newsroom", tmp_path / "newsroom")
    said = "the fox is really just a very quick one\n"
    for _ in range(3):
        assert killed(folder, said, "editor.append.AgentResponse.after")
        said = ""
    # what is said then goes the round more often than what is left of the first, and so ends behind it
    ran = coven(folder, "run", said="the way is just a very rather long one\n")
    assert ran.stdout == "FOX IS QUICK ONE\nWAY IS LONG ONE\n"
    struck = coven(folder, "journal", "read", "editor", "--kind", "AgentResponse", "-o", "json").stdout
    assert re.findall(r"Strike '(\w+)' from: [^\"]*fox", struck) == ["the", "really", "just", "a", "very"]
