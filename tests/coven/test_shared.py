"""Four processes make one coven, on an embedded server that they share."""

from __future__ import annotations

import json
import signal

import pytest

SERVICES = ("covenant", "spellcasting", "agents")


@pytest.fixture
def others(project, start):
    """The three services without a console, each in a process of its own."""

    def run():
        processes = {}
        for name in SERVICES:
            processes[name] = start("run", "--only", name)
        for name, process in processes.items():
            process.wait_for(f"hearth: {name}", "stderr")
        return processes

    return run


def ask(start, *lines: str):
    chat = start("run", "--only", "chat")
    for line in lines:
        chat.type(line)
    return chat.end()


def owner(project, processes):
    """The process that runs the embedded server now."""
    pid = json.loads((project / ".coven" / "server.json").read_text())["owner"]
    return next(name for name, process in processes.items() if process.process.pid == pid)


def test_four_terminals_make_one_coven(project, start, others):
    others()
    ran = ask(start, "what files are here?", "write 'milk' to list.txt")
    assert ran.code == 0
    assert ran.out == "In the workspace:\n  notes.md  (87 bytes)\nI wrote list.txt (4 bytes).\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_when_the_one_with_the_server_leaves_another_one_takes_it_over(project, start, others, number):
    processes = others()
    assert ask(start, "write 'milk' to list.txt").code == 0
    leaving = owner(project, processes)
    left = processes.pop(leaving)
    left.signal(number)
    assert left.end(close=False).code == (0 if number == signal.SIGTERM else -number)
    waiting = start("run", "--only", "chat")
    waiting.type("read list.txt")
    start("run", "--only", leaving)
    waiting.wait_for("milk")
    assert waiting.end().code == 0


def test_a_service_that_was_killed_goes_on_where_it_was(project, start, others):
    processes = others()
    processes["agents"].signal(signal.SIGKILL)
    processes["agents"].end(close=False)
    waiting = start("run", "--only", "chat")
    waiting.type("read notes.md")
    start("run", "--only", "agents").wait_for("hearth: agents", "stderr")
    waiting.wait_for("notes.md says:")
    assert waiting.end().code == 0


def test_another_one_of_the_same_service_takes_over_and_the_first_one_says_so(project, start, others):
    processes = others()
    newer = start("run", "--only", "covenant")
    newer.wait_for("hearth: covenant", "stderr")
    ran = ask(start, "what files are here?")
    assert ran.code == 0
    ended = processes["covenant"].end(close=False)
    assert ended.code == 1
    assert "'covenant' was taken over by another coven" in ended.err
    assert "Traceback" not in ended.err
