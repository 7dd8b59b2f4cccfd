"""PROD-1: the same cantrip gives the same loom, whichever way its intent comes in."""

from __future__ import annotations

import asyncio
import json
import os
import runpy
import signal
import sys
from pathlib import Path
from typing import Any

import acp
import httpx2
import pytest
from acp.schema import ClientCapabilities

from branches.agents.loom import import_loom
from coven import Call, Cantrip, Ward, cast, circle
from leaves.spells.fs import Filesystem, FsOptions

INTENT = "See what the notes say."
CALLS = """[
    calls(("fs.list_dir", {}), text="Let me look.", thinking="hm", usage=Usage(7, 3, 2)),
    calls(("fs.read_text", {"path": "notes.md"}), ("fs.read_text", {"path": "nowhere.md"})),
    calls(("call_agent", {"intent": "Say what milk is."})),
    says("White."),
    calls(("no.such_gate", {}), ("fs.read_text", {"path": 1})),
    lambda request: finishes({"messages": len(request.messages), "seen": request.messages[-1].content}),
]"""
CODE = """[
    runs("notes = fs.read_text(path='notes.md')"),
    runs("fs.read_text(path='nowhere.md')"),
    runs("child = call_agent(intent='Say what milk is.')"),
    says("White."),
    runs("submit_answer([child, notes['size']])"),
]"""
SEQUENCES = {"tools": [1, 2, 3, 1, 4, 5, 6], "python": [1, 2, 3, 1, 4, 5]}
GATES = ["done", "call_agent", "fs.read_text", "fs.list_dir"]
PROMPT = "You are the keeper of this workspace."
UNTOLD = ("id", "parent_id", "entity_id", "cantrip_id", "session", "call", "timestamp", "duration_ms")


def plain(text: str) -> list[dict[str, Any]]:
    """The turns of a loom without ids and times; a parent is the number of its turn."""
    import_loom(text.splitlines())
    lines = [json.loads(line) for line in text.splitlines()]
    numbers = {line["id"]: number for number, line in enumerate(lines)}
    told = []
    for line in lines:
        metadata = {key: value for key, value in line["metadata"].items() if key not in UNTOLD}
        rest = {key: value for key, value in line.items() if key not in UNTOLD}
        told.append({**rest, "metadata": metadata, "parent": numbers.get(line["parent_id"])})
    return told


def loom_of(coven, session: str) -> list[dict[str, Any]]:
    return plain(coven("loom", "export", "-", "--session", session).out)


def prepared(scripted, project: Path, said: str, medium: str) -> None:
    scripted(said)
    script = project / "script.py"
    imports = "from branches.agents.crystal import Usage\nfrom coven.testing import runs\n"
    script.write_text(imports + script.read_text())
    text = (project / "coven.yaml").read_text()
    begin = text.index("      gates: ")
    end = text.index("\n", begin)
    text = f"{text[:begin]}      gates: [{', '.join(GATES)}]{text[end:]}"
    (project / "coven.yaml").write_text(text.replace("medium: tools", f"medium: {medium}"))


async def through_the_library(project: Path, medium: str) -> list[dict[str, Any]]:
    from branches.agents.loom import export_loom

    crystal = runpy.run_path(str(project / "script.py"))["Script"](None)
    cantrip = Cantrip(crystal, Call(system_prompt=PROMPT), circle(GATES, [Ward(max_turns=40)], medium))
    files = Filesystem(FsOptions(root=str(project / "workspace")))
    ended = await cast(cantrip, INTENT, substrates={"fs": files})
    assert ended.loom is not None
    return plain(b"".join(export_loom(ended.loom)).decode())


def through_http(start) -> str:
    serving = start("serve", "--port", "0")
    url = serving.wait_for("http://", "stderr").split(" · ")[-1].strip()
    session = httpx2.post(f"{url}/cast", json={"intent": INTENT}, timeout=60).json()["session"]
    serving.signal(signal.SIGTERM)
    assert serving.end().code == 0
    return session


async def through_acp() -> str:
    class Editor(acp.Client):
        async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
            pass

    command = [sys.executable, "-m", "coven", "acp"]
    async with acp.spawn_agent_process(Editor(), *command, env=dict(os.environ)) as (connection, _):
        await connection.initialize(protocol_version=acp.PROTOCOL_VERSION, client_capabilities=ClientCapabilities())
        session = (await connection.new_session(cwd="/", mcp_servers=[])).session_id
        await connection.prompt(session_id=session, prompt=[acp.text_block(INTENT)])
    return session


@pytest.mark.parametrize(("medium", "said"), [("tools", CALLS), ("python", CODE)])
def test_every_protocol_gives_the_same_loom(coven, scripted, project, start, medium, said) -> None:
    prepared(scripted, project, said, medium)
    library = asyncio.run(through_the_library(project, medium))
    assert [turn["sequence"] for turn in library] == SEQUENCES[medium]
    assert library[-1]["ending"] == "terminated"
    assert coven("cast", "--session", "cli", INTENT).code == 0
    assert loom_of(coven, "cli") == library
    assert loom_of(coven, through_http(start)) == library
    assert loom_of(coven, asyncio.run(through_acp())) == library
