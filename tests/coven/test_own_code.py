"""Code of the user's that prints and that fails, in a coven as it is started from the command line."""

from __future__ import annotations

import pytest

from coven.backoff import Backoff
from coven.configuration import configure
from coven.host import Host
from coven.supervisor import ServiceFailed
from journals import MemoryStore

TALKING = """\
from branches.agents.crystal import CrystalResponse, ToolCall
from branches.spellcasting import Spell

class Say(Spell, frozen=True, kw_only=True):
    \"\"\"Say something aloud.\"\"\"
    full_name = "voice.say"

class Voice:
    spells = (Say,)
    def __init__(self, options): pass
    async def cast(self, spell, casting):
        print("spoken aloud")
        return "spoken"
    async def close(self): pass

class Speaker:
    def __init__(self, options): pass
    async def invoke(self, request, on_text=None):
        last = request.messages[-1]
        if last.role == "tool":
            return CrystalResponse(content=last.content)
        print("thought aloud")
        return CrystalResponse(tool_calls=(ToolCall("c", "voice.say", "{}"),))
"""


@pytest.fixture
def talking(project):
    (project / "talking.py").write_text(TALKING)
    path = project / "coven.yaml"
    text = path.read_text().replace("crystal: auto ", "crystal: speaker\n    use: talking.py:Speaker ")
    text = text.replace("gates: [done, ", "gates: [done, voice.say, ")
    path.write_text(text.replace("  spellcasting:\n", "  spellcasting:\n    voice: {use: talking.py:Voice}\n"))
    return path


@pytest.mark.parametrize("command", [("run",), ("cast", "hello")])
def test_what_own_code_prints_goes_beside_the_answers(talking, start, command):
    process = start(*command)
    if command == ("run",):
        process.type("hello")
    ran = process.end()
    assert ran == (0, "spoken\n", ran.err)
    assert ran.err.count("spoken aloud\n") == ran.err.count("thought aloud\n") == 1


async def test_a_service_that_fails_says_in_which_line(project, caplog):
    (project / "pager.py").write_text(
        "class Pager:\n"
        "    def __init__(self, options, name): pass\n"
        "    async def run(self, port, ready):\n"
        "        ready()\n"
        "        return {}['room']\n"
        "    async def deliver(self, message): pass\n"
    )
    path = project / "coven.yaml"
    path.write_text(path.read_text().replace("leaf: console ", "leaf: pager\n    use: pager.py:Pager "))
    host = Host(
        configure(path, {}).config, MemoryStore(), environ={}, tell=print, backoff=Backoff(first=0.001, limit=1)
    )
    with pytest.raises(ServiceFailed, match=r"'chat' failed 2 times .*: KeyError: 'room' \(pager\.py, line 5\)$"):
        await host.run(lambda: None)
