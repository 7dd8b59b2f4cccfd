"""`kill -9` of a coven whose agent writes code and waits for a person: after a restart each tool has run once."""

from __future__ import annotations

import os
import signal

import pytest

CONFIG = """\
coven: hearth
nats: embedded
branches:
  chat:
    leaf: console
  agents:
    crystal: keeper
    use: keeper.py:Keeper
    circle:
      medium: MEDIUM
      gates: [done, till.count, till.pay]
      wards: [{max_turns: 5}]
      approve: [till.pay]
  spellcasting:
    till: {use: till.py:Till}
covenant:
  - ChatAfferent -> AgentPrompt
  - AgentResponse -> ChatEfferentDraft
  - route: AgentToolCall -> SpellInvocation
    fault: AgentToolFault
  - SpellResult -> AgentToolResult
  - SpellFault -> AgentToolFault
  - AgentChunk -> nowhere
  - AgentStreamCompleted -> nowhere
  - AgentThought -> nowhere
  - ApprovalAsked -> ChatQuestion
  - ChatAnswer -> ApprovalGiven
"""
TILL = '''\
import asyncio
from pathlib import Path

from branches.spellcasting import Casting, Spell


class Count(Spell, frozen=True, kw_only=True):
    """Count what is in the till."""

    full_name = "till.count"


class Pay(Spell, frozen=True, kw_only=True):
    """Pay from the till."""

    full_name = "till.pay"
    amount: int


class Till:
    """Money; the file beside it tells what was done with it."""

    spells = (Count, Pay)

    def __init__(self, options: None) -> None:
        pass

    async def cast(self, spell: Spell, casting: Casting) -> int:
        with Path("till.txt").open("a") as file:
            print("count" if isinstance(spell, Count) else f"pay {spell.amount}", file=file)
        if isinstance(spell, Pay) and Path("paying").exists():
            await asyncio.to_thread(Path("paying").write_text, "paid")
            await asyncio.Event().wait()
        return 40

    async def close(self) -> None:
        pass
'''
KEEPER = '''\
from coven.testing import calls, finishes, says
from coven.testing.scripted import runs

CODE = {
    "Run Python": "n = till.count()\\nn = n + 2\\ntill.pay(amount=n)\\ndone('paid ' + str(n))",
    "Run JavaScript": "let n = till.count(); n = n + 2; till.pay({amount: n}); done('paid ' + n)",
}


class Keeper:
    """Counts, adds two and pays that; tells what went wrong."""

    def __init__(self, options: None) -> None:
        pass

    async def invoke(self, request, on_text=None):
        asked = open("asked.txt", "a")
        print(len(request.messages), file=asked)
        asked.close()
        if request.messages[-1].is_error:
            return says(request.messages[-1].content)
        tools = {tool.name: tool.description for tool in request.tools}
        if "execute" in tools:
            return runs(next(code for words, code in CODE.items() if tools["execute"].startswith(words)))
        results = [message for message in request.messages if message.role == "tool"]
        if not results:
            return calls(("till.count", {}))
        return calls(("till.pay", {"amount": 42})) if len(results) == 1 else finishes("paid 42")
'''


@pytest.fixture(params=["tools", "javascript", "python"])
def till(project, request):
    """A coven with money, whose agent works in each of the mediums."""
    (project / "coven.yaml").write_text(CONFIG.replace("MEDIUM", request.param))
    (project / "till.py").write_text(TILL)
    (project / "keeper.py").write_text(KEEPER)
    return project / "till.txt"


def kill(process, project, *, server: bool) -> None:
    """The process is gone, and where it had a server that too, before either can say a word."""
    pid = int((project / ".coven" / "nats.pid").read_text())
    process.signal(signal.SIGKILL)
    if server:
        os.kill(pid, signal.SIGKILL)
    assert process.end(close=False).code == -signal.SIGKILL


@pytest.mark.parametrize("server", [False, True], ids=["coven", "coven and server"])
def test_killed_while_a_person_is_asked_it_asks_again_and_each_tool_runs_once(till, project, start, coven, server):
    first = start("run")
    first.type("pay")
    first.wait_for('May I call till.pay with {"amount":42}? (yes/no)')
    asked = (project / "asked.txt").read_text()
    kill(first, project, server=server)

    second = start("run")
    second.wait_for("May I call till.pay")
    assert (project / "asked.txt").read_text() == asked, "what the crystal has answered it is not asked again"
    kill(second, project, server=server)

    third = start("run")
    third.wait_for("May I call till.pay")
    third.type("yes")
    third.wait_for("paid 42")
    assert third.end().code == 0
    assert till.read_text() == "count\npay 42\n"

    def read(journal: str, kind: str):
        return coven("journal", "read", journal, "-k", kind, "-o", "json").lines

    assert [line["entry"]["answer"] for line in read("agents", "ApprovalGiven")] == ["yes"]
    assert len(read("agents", "ApprovalAsked")) == 1
    assert [len(read("spellcasting", kind)) for kind in ("SpellStarted", "SpellResult")] == [2, 2]
    assert [line["entry"]["text"] for line in read("agents", "AgentResponse")] == ["paid 42"]


def test_killed_while_the_tool_is_at_work_it_is_said_to_be_in_doubt_and_not_run_again(till, project, start, coven):
    os.mkfifo(project / "paying")
    first = start("run")
    first.type("pay")
    first.wait_for("May I call till.pay")
    first.type("yes")
    (project / "paying").read_text()  # it has paid, and nobody knows yet
    kill(first, project, server=True)
    second = start("run")
    told = second.wait_for("till.pay was started, and the service stopped before its outcome was recorded")
    assert second.end().code == 0
    assert "doubt" in told.lower()
    assert till.read_text() == "count\npay 42\n"
    assert len(coven("journal", "read", "spellcasting", "-k", "SpellStarted", "-o", "json").lines) == 2
