"""The command line: what each command prints, and its exit codes."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from branches.chat import CHAT, ChatAfferent
from coven.cli._text import record_line
from coven.configuration import configure
from coven.link import Join, linked
from covenants.dead_letters import DeadLetter, dead_letter_registry
from journals import MemoryStore


async def in_thread(run, *arguments: object):
    """A command makes an event loop of its own, so it cannot run in ours."""
    return await asyncio.to_thread(run, *arguments)


async def write_chat(project, count: int = 3) -> None:
    """Some messages of two conversations."""
    async with linked(configure(project / "coven.yaml", {}).config, Join.NEVER) as link:
        journal = await link.store.open("chat", CHAT.registry())
        for number in range(count):
            session = "console" if number % 2 == 0 else "other"
            entry = ChatAfferent(sender="ada", text=f"message {number}\n\x1b[31m")
            await journal.append(entry, session=session, id=f"m{number}", correlation_id=f"m{number}")


async def write_dead_letter(project) -> str:
    """A message that no route could take, and the dead letter about it."""
    async with linked(configure(project / "coven.yaml", {}).config, Join.NEVER) as link:
        chat = await link.store.open("chat", CHAT.registry())
        record = (await chat.append(ChatAfferent(sender="ada", text="hi"), session="s", id="m0")).record
        letters = await link.store.open("dead-letters", dead_letter_registry())
        letter = DeadLetter(
            route="chat.ChatAfferent -> agents.AgentPrompt",
            journal="chat",
            position=record.position,
            source_kind="ChatAfferent",
            code="expression",
            reason="division\nby zero",
        )
        return (await letters.append(letter, session="s", id="letter-one", cause=record)).record.id


def test_help_shows_every_command_with_an_example(coven):
    commands = [[name] for name in ("init", "run", "cast", "serve", "acp", "check", "graph", "doctor")]
    commands += [["journal", name] for name in ("list", "read", "tail", "export", "import")]
    commands += [["dead-letters", name] for name in ("list", "show", "redrive")]
    for command in commands:
        ran = coven(*command, "--help")
        assert ran.code == 0
        assert "Example" in ran.out, command
        assert f"coven {' '.join(command)}" in ran.out
    assert "Exit codes" in coven("--help").out


def test_a_tail_of_a_coven_that_does_not_run_says_so(coven, project):
    ran = coven("journal", "tail", "chat")
    assert ran.code == 1
    assert ran.out == ""
    assert "no coven runs in" in ran.err
    assert "coven run" in ran.err


def test_help_flows_to_the_width_with_examples_below_one_another(coven, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = [line.strip() for line in coven("run", "--help").out.splitlines()]
    assert "goes on with the conversation. Through a pipe each line is a prompt, and it" in lines
    example = lines.index("coven run")
    assert lines[example + 1].endswith("| coven run")


def test_without_a_configuration_one_sentence_says_how_to_get_one(tmp_path, monkeypatch, coven):
    monkeypatch.chdir(tmp_path)
    for command in (("run",), ("graph",), ("journal", "list"), ("loom", "list"), ("doctor",)):
        ran = coven(*command)
        assert ran.code == 2
        assert ran.err.startswith("coven: coven.yaml: the file cannot be read: ")
        assert ran.err.endswith("; `coven init` writes one to begin with\n")


def test_what_is_no_address_of_a_server_is_not_waited_for(project, coven):
    ran = coven("journal", "list", "--nats", "hearth.example")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == ("coven: 'hearth.example' is no address of a server; write `embedded`, or `nats://host:4222`\n")


def test_an_address_that_is_taken_is_said_with_what_to_do(project, coven):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ran = coven("serve", "--port", taken.getsockname()[1])
    assert ran.code == 1
    assert ran.err.endswith("; another program listens there: choose another port\n")


def test_version_and_completion(coven):
    assert coven("--version").out.startswith("coven ")
    assert "--install-completion" in coven("--help").out


def test_the_shell_completes_commands():
    program = Path(sys.executable).with_name("coven")
    asked = {"_COVEN_COMPLETE": "complete_bash", "COMP_WORDS": "coven journal ex", "COMP_CWORD": "2"}
    ran = subprocess.run([program], env={**os.environ, **asked}, capture_output=True, text=True, timeout=60)
    assert ran.stdout.split() == ["export"]


def test_wrong_usage_exits_with_2(coven):
    for arguments in (["journal", "read"], ["run", "--nonsense"], ["nonsense"], ["dead-letters", "redrive"]):
        assert coven(*arguments).code == 2


def test_init_then_check(tmp_path, coven):
    ran = coven("init", tmp_path / "new")
    assert ran.code == 0
    assert ran.out.endswith(f"now: cd {tmp_path / 'new'} && coven run\n")
    assert coven("check", "-f", tmp_path / "new" / "coven.yaml").out.endswith("coven.yaml: all is well\n")
    again = coven("init", tmp_path / "new")
    assert (again.code, again.out) == (2, "")
    assert "--force" in again.err


def test_init_wants_a_folder(tmp_path, coven):
    (tmp_path / "taken").write_text("mine")
    ran = coven("init", tmp_path / "taken")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == f"coven: {tmp_path / 'taken'}: a file is in its place; name a folder\n"
    assert (tmp_path / "taken").read_text() == "mine"


def test_check_lists_problems_as_text_and_json(project, coven):
    path = project / "coven.yaml"
    path.write_text(path.read_text().replace("- ChatAfferent -> AgentPrompt", "- ChatAferent -> AgentPrompt"))
    ran = coven("check")
    assert ran.code == 2
    assert "coven.yaml:" in ran.out
    assert "ChatAfferent" in ran.out
    assert "error" in ran.out.splitlines()[-1]
    found = coven("check", "-o", "json")
    assert found.code == 2
    assert found.json["ok"] is False
    assert {"path", "line", "column", "code", "message", "hint", "severity"} == set(found.json["problems"][0])


def test_graph_prints_mermaid(project, coven):
    ran = coven("graph")
    assert ran.code == 0
    assert ran.out.startswith("flowchart LR\n")


async def test_journals_are_listed(project, coven):
    await write_chat(project)
    ran = await in_thread(coven, "journal", "list", "-o", "json")
    last = {row["journal"]: row["last"] for row in ran.json}
    assert last == {"chat": 3, "agents": 0, "spellcasting": 0, "dead-letters": 0, "coven": 0}
    assert (await in_thread(coven, "journal", "list")).out.splitlines()[0].split() == ["journal", "last", "time"]


async def test_a_journal_is_read_with_filters(project, coven):
    await write_chat(project, 5)

    async def ids(*options: object) -> list[str]:
        return [
            line["id"] for line in (await in_thread(coven, "journal", "read", "chat", *options, "-o", "json")).lines
        ]

    assert await ids() == ["m0", "m1", "m2", "m3", "m4"]
    assert await ids("-s", "other") == ["m1", "m3"]
    assert await ids("--after", 2, "--before", 5) == ["m2", "m3"]
    assert await ids("--reverse", "-n", 2) == ["m4", "m3"]
    assert await ids("-k", "ChatEfferentDraft") == []
    text = (await in_thread(coven, "journal", "read", "chat", "-n", 1)).out
    assert text.count("\n") == 1
    assert "\x1b" not in text
    assert 'sender="ada"' in text


async def test_a_journal_that_is_not_there_is_said_with_those_that_are(project, coven):
    ran = await in_thread(coven, "journal", "read", "chatt")
    assert ran.code == 2
    assert "this coven has chat, agents, spellcasting, dead-letters, coven" in ran.err


async def test_a_reading_that_finds_nothing_says_so(project, coven):
    ran = await in_thread(coven, "journal", "read", "chat")
    assert (ran.code, ran.out, ran.err) == (0, "", "coven: journal 'chat' is empty\n")
    await write_chat(project)
    ran = await in_thread(coven, "journal", "read", "chat", "-s", "nobody")
    assert (ran.code, ran.out, ran.err) == (0, "", "coven: journal 'chat' has no such record\n")


async def test_a_kind_that_nobody_knows_is_said_with_the_nearest_one(project, coven):
    await write_chat(project)
    ran = await in_thread(coven, "journal", "read", "chat", "-k", "ChatAferent")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "coven: no kind of journal 'chat' is called 'ChatAferent'; did you mean `ChatAfferent`?\n"


async def test_export_and_import_move_a_journal_to_another_coven(project, coven, tmp_path):
    await write_chat(project)
    ran = await in_thread(coven, "journal", "export", "chat", tmp_path / "chat.jsonl")
    assert (ran.code, ran.out, ran.err) == (0, "", "exported 3 records of chat\n")
    lines = (tmp_path / "chat.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["m0", "m1", "m2"]
    assert (await in_thread(coven, "journal", "export", "chat", tmp_path / "chat.jsonl")).code == 2

    other = tmp_path / "other"
    await in_thread(coven, "init", other)
    imported = ("journal", "import", "chat", tmp_path / "chat.jsonl", "-f", other / "coven.yaml")
    assert (await in_thread(coven, *imported)).err == "imported 3 records into chat\n"
    assert (await in_thread(coven, *imported)).err == "imported 0 records into chat, 3 were there already\n"
    there = (await in_thread(coven, "journal", "read", "chat", "-f", other / "coven.yaml", "-o", "json")).lines
    here = (await in_thread(coven, "journal", "read", "chat", "-o", "json")).lines
    assert [line.pop("imported") for line in there] == [True] * 3
    assert there == here


async def test_an_export_goes_to_standard_output_by_default(project, coven):
    await write_chat(project)
    ran = await in_thread(coven, "journal", "export", "chat", "-", "--session", "other")
    assert [line["id"] for line in ran.lines] == ["m1"]


async def test_an_import_says_which_line_is_wrong(project, coven, tmp_path):
    (tmp_path / "bad.jsonl").write_text('\n{"not": "a record"}\n')
    ran = await in_thread(coven, "journal", "import", "chat", tmp_path / "bad.jsonl")
    assert ran.code == 1
    assert "line 2: this line is no exported record" in ran.err


async def test_dead_letters_are_listed_shown_and_sent_again(project, coven):
    assert (await in_thread(coven, "dead-letters", "list")).out == "there are no dead letters\n"
    id = await write_dead_letter(project)
    assert (await in_thread(coven, "dead-letters", "list", "-o", "json")).lines[0]["id"] == id
    listed = (await in_thread(coven, "dead-letters", "list")).out
    assert "ChatAfferent at chat 1" in listed
    assert "division by zero" in listed
    shown = (await in_thread(coven, "dead-letters", "show", "letter", "-o", "json")).json
    assert (shown["letter"]["id"], shown["source"]["entry"]["text"]) == (id, "hi")
    assert (await in_thread(coven, "dead-letters", "show", "nothing")).code == 2

    sent = await in_thread(coven, "dead-letters", "redrive", "--all")
    assert (sent.code, sent.out) == (0, "letter-o  sent again, 1 entry written\n")
    prompts = (await in_thread(coven, "journal", "read", "agents", "-o", "json")).lines
    assert [prompt["entry"]["text"] for prompt in prompts] == ["hi"]
    assert (await in_thread(coven, "dead-letters", "list")).out == "there are no dead letters\n"
    again = await in_thread(coven, "dead-letters", "redrive", id, "-o", "json")
    assert again.code == 0
    assert len((await in_thread(coven, "journal", "read", "agents", "-o", "json")).lines) == 1


async def test_a_dead_letter_that_still_cannot_go_exits_with_1(project, coven):
    id = await write_dead_letter(project)
    path = project / "coven.yaml"
    renamed = "- {route: ChatAfferent -> AgentPrompt, name: another}"
    path.write_text(path.read_text().replace("- ChatAfferent -> AgentPrompt", renamed))
    ran = await in_thread(coven, "dead-letters", "redrive", id)
    assert ran.code == 1
    assert "no route takes ChatAfferent" in ran.out


async def test_doctor_finds_what_is_wrong_and_what_is_right(project, coven, nats_server):
    url = nats_server.url.replace("://", f"://{nats_server.token}@")
    ran = await in_thread(coven, "doctor", "--nats", url, "-o", "json")
    assert ran.code == 0
    assert {finding["level"] for finding in ran.json} <= {"ok", "warning"}
    assert nats_server.token not in ran.out
    broken = await in_thread(coven, "doctor", "--nats", "nats://127.0.0.1:1")
    assert broken.code == 1
    assert "problem" in broken.out


async def test_doctor_says_whether_a_service_runs(project, coven):
    ran = await in_thread(coven, "doctor", "--service", "agents")
    assert (ran.code, ran.out) == (1, "agents is stopped\n")
    assert (await in_thread(coven, "doctor", "--service", "oracle")).code == 2


def test_a_bug_is_a_message_unless_debugging(project, coven, monkeypatch):
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("impossible")

    monkeypatch.setattr("coven.configuration.configure", broken)
    ran = coven("graph")
    assert ran.code == 1
    assert "bug in Coven (RuntimeError: impossible)" in ran.err
    monkeypatch.setenv("COVEN_DEBUG", "1")
    with pytest.raises(RuntimeError):
        coven("graph")


@pytest.mark.parametrize("module", ["coven.cli._app", "coven.logs", "structlog", "asyncio.base_events"])
def test_an_interrupt_while_it_is_still_being_imported_is_no_traceback(module):
    script = (
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}: raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "sys.argv = ['coven', 'check']\n"
        "from coven.cli import main\n"
        "assert 'asyncio' not in sys.modules, 'what takes long comes when an interrupt is waited for'\n"
        "main()"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "")


def test_records_are_one_line_each_however_strange():
    async def write():
        journal = await MemoryStore().open("chat", CHAT.registry())
        said = ChatAfferent(sender="ada", text="a\nb" * 100)
        return (await journal.append(said, session="x\x1b\ny")).record

    record = asyncio.run(write())
    assert record_line(record, None).split("  ")[-1].startswith('text="a')
    line = record_line(record, 80)
    assert "\n" not in line
    assert "\x1b" not in line
    assert len(line) == 80
    assert line.endswith("…")
