"""A project whose crystal says what a Python file beside coven.yaml wrote down for it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

CRYSTAL = '''
import asyncio
from pathlib import Path

from branches.agents.crystal import CrystalError
from coven.testing import ScriptedCrystal, calls, fails, finishes, says


class Script(ScriptedCrystal):
    """Says what is written down here."""

    def __init__(self, options):
        super().__init__(SCRIPT, otherwise=says("again"))

    async def invoke(self, request, on_text=None, on_thought=None):
        if SCRIPT == [aloud]:
            return await aloud(on_text, on_thought)
        return await super().invoke(request, on_text, on_thought)


async def aloud(on_text, on_thought):
    """Begins a thought, and goes on with it and answers when something comes through a pipe."""
    on_thought("They greet.\\n")
    rest = await asyncio.to_thread(Path("go").read_text)
    on_thought(rest)
    on_text("Hello.")
    return says("Hello.", thinking=f"They greet.\\n{{rest}}")


async def hangs(request):
    """Says through a pipe that it was asked, and never answers."""
    await asyncio.to_thread(Path("asked").write_text, "now")
    await asyncio.Event().wait()


async def waits(request):
    """Says through a pipe that it was asked, and answers when something comes through another one."""
    await asyncio.to_thread(Path("asked").write_text, "now")
    return says(await asyncio.to_thread(Path("go").read_text))


def after(answer):
    """The same with an answer of its own."""

    async def give(request):
        await waits(request)
        return answer

    return give


async def picks(request):
    """Waits with its answer to `one`, and answers anything else at once."""
    return await waits(request) if request.messages[-1].content == "one" else says("other")


SCRIPT = {script}
'''


@pytest.fixture
def scripted(project: Path) -> Callable[[str], Path]:
    """Makes the crystal of the project say a script, given as Python: `[says("hello")]`."""

    def write(script: str) -> Path:
        for pipe in (project / "asked", project / "go"):
            if not pipe.exists():
                os.mkfifo(pipe)
        (project / "script.py").write_text(CRYSTAL.format(script=script), encoding="utf-8")
        file = project / "coven.yaml"
        text = file.read_text(encoding="utf-8")
        text = re.sub(r"    crystal: auto.*", "    crystal: script\n    use: script.py:Script", text)
        text = re.sub(r"nats: embedded\n(?!durability)", "nats: embedded\ndurability: process\n", text)
        file.write_text(text, encoding="utf-8")
        return project

    return write
