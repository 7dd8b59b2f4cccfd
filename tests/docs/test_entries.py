"""The page of the kinds: it is what the code says, and its functions fit routes."""

from __future__ import annotations

import runpy
import subprocess
import sys

from branches.agents.entries import AgentPrompt, AgentResponse
from branches.chat.entries import ChatEfferentDraft
from covenants.checks.code import wrong_signature
from covenants.manifests import MANIFESTS
from tests.docs.examples import ROOT, blocks

PAGE = ROOT / "docs/entries.md"


def test_the_kinds_are_those_of_the_code() -> None:
    script = runpy.run_path(str(ROOT / "docs/generate.py"))
    assert PAGE.read_text(encoding="utf-8") == script["kinds_text"](), "run `python docs/generate.py`"


def test_every_branch_has_its_kinds_where_the_page_says_they_are() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for branch in MANIFESTS:
        assert f"<!-- kinds: {branch} -->\n### " in text
        assert f"`from branches.{branch}.entries import …`" in text


def test_the_functions_of_the_page_fit_their_routes() -> None:
    block = next(block for block in blocks("entries.md") if block.info == "python")
    names: dict[str, object] = {}
    exec(compile(block.text, "entries.md", "exec", dont_inherit=True), names)
    response = AgentResponse(sender="agents", text="tea")
    assert wrong_signature(names["shorten"], AgentResponse, (ChatEfferentDraft,)) is None
    assert wrong_signature(names["review"], AgentResponse, (AgentPrompt,)) is None
    assert names["shorten"](response) == ChatEfferentDraft(text="tea", sender="agents")  # type: ignore[operator]
    assert "tea" in names["review"](response).text  # type: ignore[operator]


def test_the_program_of_the_page_prints_what_it_says() -> None:
    program, printed = blocks("entries.md")[-2:]
    command = [sys.executable, "-c", program.text]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.stderr, ran.stdout) == ("", printed.text)
