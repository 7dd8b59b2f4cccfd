"""The page of the protocols: its commands run and print what it says, and what it lists is what there is."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from branches.agents.events import AnyEvent
from coven.answers import Answer
from coven.http.openapi import openapi_document
from covenants import check, load_text
from leaves.catalogue import CATALOGUE
from tests.docs.examples import ROOT, blocks, whole_file, write_code

PAGE = "protocols.md"
TEXT = (ROOT / "docs" / PAGE).read_text(encoding="utf-8")
CONSOLE = [block.text for block in blocks(PAGE) if block.info == "console"]
PRINTED = [block.text for block in blocks(PAGE) if block.info == "text"]
KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY", "COVEN_HTTP_TOKEN", "COVEN_FILE")


@pytest.fixture
def shell(tmp_path: Path) -> Callable[[str], str]:
    """Runs a line of the page in a new project; `coven` is this one."""
    bin = tmp_path / "bin"
    bin.mkdir()
    (bin / "coven").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m coven "$@"\n')
    (bin / "coven").chmod(0o755)
    environ = {name: value for name, value in os.environ.items() if name not in KEYS}
    environ["PATH"] = f"{bin}{os.pathsep}{environ['PATH']}"
    folder = tmp_path / "hearth"

    def run(line: str) -> str:
        cwd = folder if folder.exists() else tmp_path
        ran = subprocess.run(
            ["sh", "-c", line], cwd=cwd, env=environ, capture_output=True, text=True, timeout=60, check=False
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    run("coven init hearth")
    write_code(PAGE, folder)
    return run


def commands(console: str) -> list[str]:
    return [line.removeprefix("$ ") for line in console.splitlines()]


def test_casts_print_what_the_page_says(shell) -> None:
    first, second, third = commands(CONSOLE[0])
    assert shell(first) == PRINTED[0]
    assert shell(second).startswith("notes.md says:")
    told = json.loads(shell(third))
    assert set(told) == set(Answer.__struct_fields__) - {"attachments"}  # where there are none
    assert all(f"`{name}`" in TEXT for name in Answer.__struct_fields__)
    assert shell(*commands(CONSOLE[1])) == PRINTED[1]


@pytest.mark.parametrize("example", [block.text for block in blocks(PAGE) if block.info == "yaml"])
def test_the_examples_pass_the_check(shell, tmp_path, example) -> None:
    loaded = load_text(whole_file(example).encode(), {}, base=tmp_path / "hearth")
    assert [str(problem) for problem in check(loaded, CATALOGUE).problems] == []


@pytest.mark.skipif(shutil.which("curl") is None, reason="the page's requests are made with curl")
def test_requests_are_answered(shell, tmp_path) -> None:
    serving = subprocess.Popen(
        [sys.executable, "-m", "coven", "serve", "--port", "0"],
        cwd=tmp_path / "hearth",
        stderr=subprocess.PIPE,
        text=True,
        env={name: value for name, value in os.environ.items() if name not in KEYS},
    )
    try:
        assert serving.stderr is not None
        address = serving.stderr.readline().strip().rpartition("http://")[2]
        said = [shell(line.replace("127.0.0.1:8383", address)) for line in commands(CONSOLE[2])]
    finally:
        serving.send_signal(signal.SIGTERM)
        serving.communicate(timeout=60)
    cast, prompt, events, thread, fork, cancel = said
    assert json.loads(cast)["answer"].startswith("notes.md says:")
    assert json.loads(prompt)["session"] == "ada"
    assert "event: FinalResponseEvent" in events
    assert json.loads(thread)["ending"] == "terminated"
    assert json.loads(fork) == {"session": "bob", "forked_from": "ada"}
    assert json.loads(cancel) == {"session": "ada", "prompt": None}


def test_the_page_lists_every_request_and_every_event() -> None:
    paths = {
        (method.upper(), path)
        for path, operations in openapi_document("0")["paths"].items()
        for method in operations
        if method in ("get", "post")
    }
    assert set(re.findall(r"`(GET|POST) (/[^\s`]*)`", TEXT)) >= paths - {("POST", "/sessions/NAME/prompts")}
    assert all(f"`{event.__name__}`" in TEXT for event in AnyEvent.__args__)
