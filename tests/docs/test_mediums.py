"""docs/mediums.md: its code runs as it stands, and its limits are those of the code."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from branches.agents.gates import DONE, GateDefinition
from branches.agents.medium import Finished, GateError, GateReply, GateValue, Limits, Medium, Seed
from branches.spellcasting.spell import Spell
from branches.spellcasting.spells import ListDir, ReadText
from leaves.mediums.javascript import JavaScript
from leaves.mediums.python import Python
from tests.docs.examples import ROOT, blocks

PAGE = "mediums.md"
BLOCKS = blocks(PAGE)
EXAMPLES = [(code.info, code.text, said.text) for code, said in itertools.pairwise(BLOCKS) if said.info == "text"]
FILES = {"a.md": "aaaaa", "b.md": "bbbbbbbbbbb", "c.txt": "c"}


class Files:
    async def call(self, gate: str, arguments: Mapping[str, Any]) -> GateReply:
        if gate == "done":
            return Finished()
        if gate == "fs.list_dir":
            return GateValue(sorted(FILES))
        if arguments["path"] not in FILES:
            return GateError("FileNotFoundError", arguments["path"])
        return GateValue(FILES[arguments["path"]])


def gate(spell: type[Spell]) -> GateDefinition:
    properties = {"path": {"type": "string"}}
    return GateDefinition(spell.name(), "", {"type": "object", "properties": properties, "required": ["path"]})


@pytest.mark.parametrize(("language", "code", "said"), EXAMPLES)
async def test_the_code_runs_as_it_stands(language: str, code: str, said: str) -> None:
    medium: Medium = JavaScript() if language == "javascript" else Python()
    sandbox = await medium.open([DONE, gate(ReadText), gate(ListDir)], Limits())
    outcome = await sandbox.run(code, Files(), Seed(0.0, 0))
    await medium.close()
    assert outcome.error is None
    assert f"{outcome.output}{outcome.value or ''}".strip() == said.strip()


def test_there_are_examples() -> None:
    assert [language for language, _, _ in EXAMPLES] == ["javascript", "python", "javascript"]


async def test_the_example_in_python() -> None:
    (code,) = (block.text for block in BLOCKS if block.info == "python" and "async def main" in block.text)
    names: dict[str, Any] = {}
    exec(compile(code, PAGE, "exec"), names)
    assert await names["main"]() == (len("read of a.txt"), "read of a.txt")


def test_the_limits_are_those_of_the_code() -> None:
    text, limits = (ROOT / "docs" / PAGE).read_text(encoding="utf-8"), Limits()
    assert f"| {limits.cpu_s:g} s |" in text
    assert f"| {limits.wall_s / 60:g} min |" in text
    assert f"| {limits.memory_bytes // 2**20} MiB |" in text
    for number in (limits.output_chars, limits.code_chars, limits.gate_chars):
        assert f"| {number:,} characters" in text
