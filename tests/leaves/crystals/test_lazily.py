"""Who runs with one provider imports no other."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from coven.testing.providers import ProviderServer, Reply
from tests.leaves.crystals.providers import ANTHROPIC, GEMINI, OPENAI, Provider

CONNECT = """
import asyncio, sys
from leaves.catalogue import CATALOGUE
from branches.catalogue import LeafKind
assert not {"anthropic", "openai", "google.genai", "httpx2", "pydantic"} & sys.modules.keys(), "the catalogue"
leaf = CATALOGUE.of(LeafKind.CRYSTAL)[sys.argv[1]]
crystal = leaf.load()(leaf.options())
assert not {"anthropic", "openai", "google.genai"} & sys.modules.keys(), "making a crystal"

async def connected():
    crystal._client()
    await crystal.close()

asyncio.run(connected())
print(*sorted({"anthropic", "openai", "google.genai"} & sys.modules.keys()))
"""


@pytest.mark.parametrize(
    ("name", "sdk"),
    [
        ("anthropic", "anthropic"),
        ("openai", "openai"),
        ("gemini", "google.genai"),
        ("openrouter", "openai"),
        ("local", "openai"),
    ],
)
def test_only_the_sdk_that_is_used_is_imported_and_only_then(name: str, sdk: str):
    environ = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"), "canary")
    ran = subprocess.run([sys.executable, "-c", CONNECT, name], env=environ, capture_output=True, text=True, timeout=60)
    assert (ran.stdout.strip(), ran.stderr) == (sdk, "")


RUN = """
import atexit, sys
names = ("anthropic", "openai", "google.genai")
atexit.register(lambda: print(*sorted(sys.modules.keys() & set(names)), file=sys.stderr))
sys.argv = ["coven", "run"]
from coven.cli import main
main()
"""
COVEN = """
coven: lazily
nats: embedded
branches:
  chat: {leaf: console}
  agents: {crystal: {NAME: {base_url: "URL"}}, circle: {medium: tools, gates: [done], wards: [{max_turns: 3}]}}
  spellcasting: {}
covenant:
  - ChatAfferent -> AgentPrompt
  - AgentResponse -> ChatEfferentDraft
  - AgentChunk -> ChatChunk
  - AgentStreamCompleted -> ChatStreamCompleted
  - AgentThought -> nowhere
  - {route: AgentToolCall -> SpellInvocation, fault: AgentToolFault}
  - SpellResult -> AgentToolResult
  - SpellFault -> AgentToolFault
"""


@pytest.mark.parametrize("provider", [ANTHROPIC, OPENAI, GEMINI], ids=lambda each: each.name, indirect=False)
async def test_a_coven_that_has_asked_one_provider_has_imported_no_other(
    provider: Provider, server: ProviderServer, tmp_path: Path
):
    sdk = {"gemini": "google.genai"}.get(provider.name, provider.name)
    path = "/v1" if provider is OPENAI else ""
    (tmp_path / "coven.yaml").write_text(COVEN.replace("NAME", provider.name).replace("URL", server.url + path))
    server.replies = [Reply(text="Good morning.")]
    keys = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", RUN),
        cwd=tmp_path,
        env={**os.environ, **dict.fromkeys(keys, server.key)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, imported = await asyncio.wait_for(process.communicate(b"hello\n"), 60)
    assert said.decode() == "Good morning.\n", imported.decode()
    assert imported.decode().splitlines()[-1] == sdk
