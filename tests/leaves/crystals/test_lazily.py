"""Who runs with one provider imports no other."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
