"""The main job, as a person meets it: one command, a conversation, real files, and everything in journals."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

FILES = "In the workspace:\n  notes.md  (87 bytes)\n"


def converse(start, *lines: str, **options):
    process = start("run", **options)
    for line in lines:
        process.type(line)
    return process.end()


def test_through_a_pipe_it_answers_from_real_files_and_ends(project, start):
    ran = converse(start, "what files are here?", "write 'milk' to list.txt", "run ls -l")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"{FILES}I wrote list.txt (4 bytes).\n$ ls -l\n")
    assert (project / "workspace" / "list.txt").read_text() == "milk"


def test_it_answers_nothing_to_nothing(project, start):
    assert converse(start) == (0, "", "")


def test_starting_again_goes_on_with_the_same_conversation(project, start, coven):
    converse(start, "what files are here?")
    ran = converse(start, "read notes.md")
    assert ran.out.startswith("notes.md says:")
    prompts = coven("journal", "read", "chat", "-k", "ChatAfferent", "-o", "json").lines
    assert [(prompt["session"], prompt["entry"]["text"]) for prompt in prompts] == [
        ("console", "what files are here?"),
        ("console", "read notes.md"),
    ]
    assert len(coven("journal", "read", "agents", "-k", "EntityCast", "-o", "json").lines) == 1


def test_every_step_stands_in_the_journals(project, start, coven):
    converse(start, "what files are here?")

    def kinds(journal: str) -> list[str]:
        return [line["kind"] for line in coven("journal", "read", journal, "-o", "json").lines]

    chat = kinds("chat")
    assert chat.count("ChatActivity") == 2  # the call and what came of it, for people who want to look
    assert [kind for kind in chat if kind != "ChatActivity"] == [
        "ChatAfferent",
        "ChatEfferentDraft",
        "ChatEfferent",
        "ChatDelivered",
    ]
    assert kinds("spellcasting") == ["SpellInvocation", "SpellResult"]
    assert [kind for kind in kinds("agents") if kind in ("AgentPrompt", "AgentToolCall", "AgentResponse")] == [
        "AgentPrompt",
        "AgentToolCall",
        "AgentResponse",
    ]
    states = [line["entry"] for line in coven("journal", "read", "coven", "-k", "ServiceChanged", "-o", "json").lines]
    told = {service: [e["state"] for e in states if e["service"] == service] for service in ("agents", "covenant")}
    assert told == {name: ["starting", "running", "stopping", "stopped"] for name in ("agents", "covenant")}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_stops_everything_in_order(project, start, coven, number):
    process = start("run")
    process.type("what files are here?")
    process.wait_for("notes.md")
    process.signal(number)
    ran = process.end(close=False)
    assert (ran.code, ran.err) == (0, "")
    states = [line["entry"] for line in coven("journal", "read", "coven", "-k", "ServiceChanged", "-o", "json").lines]
    stops = [f"{entry['service']} {entry['state']}" for entry in states[-8:]]
    assert stops == [
        f"{service} {state}"
        for service in ("chat", "covenant", "agents", "spellcasting")
        for state in ("stopping", "stopped")
    ]


def test_a_prompt_whose_answer_was_cut_off_is_answered_at_the_next_start(project, start):
    """A program under way is ended with its descendants; whether it had an effect is in doubt, and said to be."""
    config = project / "coven.yaml"
    config.write_text(config.read_text().replace("allow: [ls, cat, echo, pwd]", "allow: [ls, sleep]"))
    process = start("run", "-v")
    process.type("run sleep 1000")
    process.wait_for("running", "stderr")
    tail = start("journal", "tail", "spellcasting", "--after", "0", "-k", "SpellStarted", "-n", "1")
    assert tail.end().code == 0
    process.signal(signal.SIGTERM)
    assert process.end(close=False).code == 0
    ran = converse(start, "what files are here?")
    assert ran.code == 0
    assert "was started, and the service stopped before its outcome was recorded" in ran.out
    assert ran.out.endswith(FILES)


def test_a_person_on_a_terminal_sees_what_runs_gets_answers_and_stops_it_by_ctrl_c(project):
    ours, theirs = pty.openpty()
    environ = {**os.environ, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", "COLUMNS": "200"}
    process = subprocess.Popen(
        [sys.executable, "-m", "coven", "run"],
        env=environ,
        pass_fds=[theirs],
        start_new_session=True,
        preexec_fn=lambda: os.login_tty(theirs),  # its own terminal: Ctrl-C between two prompts is a signal
    )
    os.close(theirs)
    shown = ""

    def wait_for(text: str) -> None:
        nonlocal shown
        while text not in shown:
            shown += os.read(ours, 65536).decode("utf-8", "replace")
        shown = shown.partition(text)[2]

    try:
        wait_for("hearth · crystal rehearsal · workspace ./workspace · embedded NATS")
        os.write(ours, b"what files are here?\r")
        wait_for("notes.md  (87 bytes)")
        os.write(ours, b"/help\r")
        wait_for("stop everything in order")
        os.write(ours, b"\x03")
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_a_key_picks_its_provider_and_is_never_said(project, start):
    """Requests to providers are forbidden in tests: that one was about to be made shows who was picked."""
    ran = converse(start, "hello", ANTHROPIC_API_KEY="sk-ant-canary")
    assert ran.code == 1
    assert "a request to anthropic was about to be made" in ran.err
    assert "canary" not in ran.err + ran.out


def test_a_configuration_with_errors_is_not_run(project, start):
    (project / "coven.yaml").write_text("coven: hearth\nbranches: {chat: {leef: console}}\ncovenant: []\n")
    ran = converse(start)
    assert ran.code == 2
    assert ran.err.startswith("coven.yaml:2:")
    assert "Traceback" not in ran.err


def test_a_missing_configuration_says_how_to_get_one(tmp_path, monkeypatch, start):
    monkeypatch.chdir(tmp_path)
    ran = converse(start)
    assert ran.code == 2
    assert "coven init" in ran.err


def test_a_folder_that_cannot_be_used_is_an_error_with_a_cure(project, start):
    (project / ".coven").write_text("in the way")
    ran = converse(start)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("coven: ")
    assert ".coven" in ran.err
    assert "Traceback" not in ran.err


def test_a_coven_runs_once(project, start):
    first = start("run")
    first.type("hello")
    first.wait_for("rehearsal")
    ran = converse(start)
    assert ran.code == 1
    assert f"in use by the coven with process id {first.process.pid}" in ran.err
    assert first.end().code == 0


def test_a_server_that_is_not_there_is_an_error_with_a_cure(project, start):
    ran = converse(start, COVEN_NATS="nats://127.0.0.1:1")
    assert ran.code == 1
    assert "no NATS server answers at nats://127.0.0.1:1" in ran.err
    assert "Traceback" not in ran.err


def test_output_that_nobody_reads_ends_it_and_the_answer_comes_at_the_next_start(project):
    read, write = os.pipe()
    os.close(read)
    process = subprocess.Popen(
        [sys.executable, "-m", "coven", "run"], stdin=subprocess.PIPE, stdout=write, stderr=subprocess.PIPE, text=True
    )
    os.close(write)
    _, err = process.communicate("what files are here?\nread notes.md\n", timeout=60)
    assert (process.returncode, err) == (0, "")
    again = subprocess.run(
        [sys.executable, "-m", "coven", "run"], input="pwd\n", capture_output=True, text=True, timeout=60
    )
    assert again.stdout.startswith(FILES)


@pytest.mark.parametrize(("closed", "code"), [("<&-", 0), (">&-", 0), ("2>&-", 0), ("<&- >&- 2>&-", 0)])
def test_standard_streams_may_be_closed(project, closed, code):
    command = f"exec {sys.executable} -m coven run {closed}"
    ran = subprocess.run(["sh", "-c", command], input="hello\n", capture_output=True, text=True, timeout=60)
    assert ran.returncode == code
    assert "Traceback" not in ran.stderr


def test_a_dead_letter_in_a_pipe_ends_it_with_a_message(project, start):
    config = project / "coven.yaml"
    broken = "  - {route: ChatAfferent -> AgentPrompt, map: {text: 'text + string(1 / (size(text) - size(text)))'}}"
    config.write_text(config.read_text().replace("  - ChatAfferent -> AgentPrompt", broken))
    ran = converse(start, "hello")
    assert ran.code == 1
    assert "could not be routed, so its answer may never come" in ran.err


@pytest.mark.parametrize("command", ["run", "check", "--help"])
def test_what_is_not_used_is_not_imported(project, command):
    """Nobody who starts it waits for the libraries of providers, protocols and mediums."""
    environ = {**os.environ, "COVEN_LOCAL_URL": "http://127.0.0.1:1/v1"}
    environ.pop("COVEN_FORBID_MODEL_REQUESTS", None)
    script = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(*sys.modules, sep='\\n', file=sys.stderr))\n"
        f"sys.argv = ['coven', {command!r}]\n"
        "from coven.cli import main\n"
        "main()"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], input="hello\n", capture_output=True, text=True, timeout=60, env=environ
    )
    assert ran.returncode == 0
    heavy = {"acp", "anthropic", "google", "httpx2", "openai", "pydantic", "pydantic_monty", "quickjs_rs"}
    heavy |= {"discord", "prompt_toolkit", "slack_sdk", "starlette", "uvicorn", "wasmtime"}
    assert heavy.isdisjoint(ran.stderr.split())


def test_user_files_are_never_on_the_path_of_our_imports(project, start):
    for name in ("coven", "journals", "branches", "leaves"):
        (project / f"{name}.py").write_text("raise SystemExit('imported from the workspace')")
    program = Path(sys.executable).with_name("coven")
    ran = subprocess.run([program, "run"], input="hello\n", capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0
    assert ran.stdout.startswith("I am the rehearsal crystal")


def test_a_server_that_is_killed_comes_back_and_the_conversation_goes_on(project, start):
    process = start("run")
    process.type("write 'milk' to list.txt")
    process.wait_for("I wrote list.txt")
    for number in range(3):
        address = json.loads((project / ".coven" / "server.json").read_text())
        os.kill(address["pid"], signal.SIGKILL)
        process.type(f"write 'x' to file{number}.txt")
        process.wait_for(f"I wrote file{number}.txt")
    ran = process.end()
    assert ran.code == 0
    assert "the NATS server died and is started again" in ran.err
    assert "Traceback" not in ran.err
    assert len(list((project / "workspace").iterdir())) == 5
