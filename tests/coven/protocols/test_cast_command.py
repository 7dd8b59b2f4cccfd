"""`coven cast`: one episode, its answer, its exit code, and what stands in the journal afterwards."""

from __future__ import annotations

import asyncio
import base64
import io
import os
import re
import signal
import socket
import subprocess
import sys

import pytest

from coven.elsewhere import running_elsewhere
from coven.lifecycle import ServiceChanged, State, system_registry
from journals import MemoryStore


def prompts(coven, kind: str = "AgentPrompt") -> list[dict]:
    return [line["entry"] for line in coven("journal", "read", "agents", "-k", kind, "-o", "json").lines]


def test_the_answer_goes_to_standard_output_and_nothing_else_does(coven, scripted):
    scripted('[calls(("fs.read_text", {"path": "notes.md"})), finishes("It says milk.")]')
    ran = coven("cast", "read the notes")
    assert (ran.code, ran.out, ran.err) == (0, "It says milk.\n", "")
    assert [line["kind"] for line in coven("journal", "read", "spellcasting", "-o", "json").lines] == [
        "SpellInvocation",
        "SpellResult",
    ]


def test_json_tells_the_whole_ending(coven, scripted):
    scripted('[finishes({"sum": 3})]')
    told = coven("cast", "--json", "--session", "sums", "add").json
    assert told["answer"] == {"sum": 3}
    assert (told["ending"], told["ward"], told["error"], told["turns"]) == ("terminated", None, None, 1)
    assert told["usage"] == {"prompt": 0, "completion": 0, "cached": 0}
    assert told["session"] == "sums"


def test_files_belong_to_the_intent_and_those_of_the_answer_are_named(coven, scripted):
    show = "lambda request: calls(('fs.attach', {'path': request.messages[-1].images[0].name}))"
    folder = scripted(f'[{show}, finishes("Here.")] * 2')
    (folder / "coven.yaml").write_text((folder / "coven.yaml").read_text().replace("fs.write_text", "fs.attach"))
    for place in (folder, folder / "workspace"):
        (place / "chart.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(1000))
    ran = coven("cast", "--attach", "chart.png", "send it back")
    assert (ran.code, ran.out) == (0, "Here.\n")
    assert "attached: chart.png, image/png, 1,008 bytes" in ran.err
    (prompt,) = prompts(coven)
    assert prompt["text"] == "send it back\n\n[attached: chart.png, image/png, 1,008 bytes]"
    told = coven("cast", "--json", "--attach", "chart.png", "send it back").json
    assert base64.b64decode(told["attachments"][0]["body"])[1:4] == b"PNG"
    shown = coven("journal", "read", "agents", "-k", "AgentPrompt").out
    assert "attachments=[chart.png (1,008 bytes)]" in shown
    assert "iVBOR" not in shown
    missing = coven("cast", "--attach", "none.png", "go")
    assert (missing.code, "none.png: No such file" in missing.err) == (2, True)


def test_an_answer_that_is_no_text_is_json(coven, scripted):
    scripted('[finishes({"sum": 3})]')
    assert coven("cast", "add").out == '{"sum":3}\n'


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ('[fails(400, "no such model")]', "no such model"),
        ('[calls(("fs.list_dir", {}))] * 50', "truncated by max_turns"),
    ],
)
def test_what_does_not_end_well_is_exit_code_1(coven, scripted, script, said):
    scripted(script)
    ran = coven("cast", "go")
    assert (ran.code, ran.out) == (1, "")
    assert said in ran.err


def test_a_session_remembers_what_was_said(coven, scripted):
    folder = scripted('[says("hello")]')
    assert coven("cast", "--session", "ada", "I am Ada.").code == 0
    (folder / "script.py").write_text(
        (folder / "script.py")
        .read_text()
        .replace('[says("hello")]', "[lambda request: says(str([m.content for m in request.messages]))]")
    )
    assert "'I am Ada.', 'hello', 'Who am I?'" in coven("cast", "--session", "ada", "Who am I?").out


def test_the_intent_comes_from_standard_input(coven, scripted, monkeypatch):
    scripted("[lambda request: says(request.messages[-1].content)]")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("dünn\n".encode())))
    assert coven("cast", "-").out == "dünn\n\n"
    for bad, why in ((b"\xff\xfe", "not UTF-8"), (b" \n", "an intent is required")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(bad)))
        ran = coven("cast", "-")
        assert ran.code == 2
        assert why in ran.err


def test_an_intent_that_is_no_unicode_is_refused(coven, scripted):
    scripted("[]")
    ran = coven("cast", "\udcff")
    assert ran.code == 2
    assert "not valid Unicode" in ran.err


def test_without_a_file_it_reads_the_current_folder_and_keeps_nothing(coven, tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("milk")
    monkeypatch.chdir(tmp_path)
    for key in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY", "COVEN_FILE"):
        monkeypatch.delenv(key, raising=False)
    assert coven("cast", "read a.txt").out == "a.txt says:\nmilk\n"
    assert "not among my gates" in coven("cast", "write 'x' to b.txt").out
    assert os.listdir(tmp_path) == ["a.txt"]
    refused = coven("cast", "--session", "ada", "read a.txt")
    assert (refused.code, "coven init" in refused.err) == (2, True)
    assert coven("cast", "--file", "coven.yaml", "read a.txt").code == 2


def test_another_crystal_answers_only_in_the_session_of_the_cast(coven, scripted, start, project):
    scripted("[hangs]")
    stopped = start("cast", "--session", "first", "wait")
    (project / "asked").read_text()  # until it is asked
    stopped.signal(signal.SIGKILL)
    stopped.end()
    ran = coven("cast", "--crystal", "rehearsal", "read notes.md")
    assert ran.out.startswith("notes.md says:")
    assert len(prompts(coven)) == 2
    assert [entry["text"] for entry in prompts(coven, "AgentResponse")] == [ran.out.rstrip("\n")]


def test_a_crystal_of_ones_own_is_named_by_its_file(coven, project):
    (project / "mine.py").write_text(
        "from coven.testing import ScriptedCrystal, says\n"
        "class Mine(ScriptedCrystal):\n"
        "    def __init__(self, options):\n"
        "        super().__init__([says('mine')])\n"
    )
    assert coven("cast", "--crystal", "mine.py:Mine", "who?").out == "mine\n"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (("--crystal", "rehersal"), "did you mean `rehearsal`?"),
        (("--crystal", "nowhere.py:Mine"), "there is no file"),
        (("--medium", "tolls"), "did you mean `tools`?"),
        (("--agents", "agent"), "did you mean `agents`?"),
    ],
)
def test_what_cannot_be_cast_is_exit_code_2(coven, project, wrong, said):
    ran = coven("cast", *wrong, "go")
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_a_person_who_waits_sees_what_happens(coven, scripted, monkeypatch):
    reads = '("fs.read_text", {"path": "notes.md"}), ("fs.read_text", {"path": "no"})'
    scripted(f'[calls({reads}, thinking="hm"), finishes("x")]')
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    ran = coven("cast", "go")
    assert (ran.code, ran.out) == (0, "x\n")
    first, thought, call, result, wrong, failed, second = ran.err.splitlines()
    assert (first, re.sub("\x1b.*?m", "", thought), second) == ("turn 1", "  (hm)", "turn 2")
    assert (call, wrong) == ('  fs.read_text(path="notes.md")', '  fs.read_text(path="no")')
    assert result.startswith('    {"path":"notes.md"')
    assert failed.startswith("    failed: ")


def test_ctrl_c_cancels_the_episode_for_good(start, scripted, coven, project):
    scripted("[hangs]")
    process = start("cast", "wait")
    (project / "asked").read_text()  # until it is asked
    process.signal(signal.SIGINT)
    ran = process.end()
    assert (ran.code, ran.out) == (130, "")
    assert "cancelled" in ran.err
    assert [entry.get("ending") for entry in prompts(coven, "AgentResponse")] == ["cancelled"]
    assert len(prompts(coven, "AgentCancel")) == 1


def test_where_the_coven_runs_its_own_services_answer(start, coven, project, monkeypatch):
    running = start("run", "-v")
    running.wait_for("running", "stderr")
    ran = coven("cast", "read notes.md")
    assert ran.out.startswith("notes.md says:")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert "answers from another process" in coven("cast", "read notes.md").err
    refused = coven("cast", "--crystal", "rehearsal", "read notes.md")
    assert refused.code == 2
    assert "runs in another process" in refused.err
    ended = running.end()
    assert (ended.code, ended.out) == (0, "")
    hosts = {
        line["entry"]["host"]
        for line in coven("journal", "read", "coven", "-k", "ServiceChanged", "-o", "json").lines
        if line["entry"]["service"] == "agents"
    }
    assert len(hosts) == 1


def test_casts_at_once_share_what_they_need(start, scripted, project, coven):
    scripted("[waits]")
    first = start("cast", "--session", "first", "wait")
    (project / "asked").read_text()
    ran = coven("cast", "--crystal", "rehearsal", "read notes.md")
    assert ran.out.startswith("notes.md says:")
    (project / "go").write_text("done")
    assert first.end()[:2] == (0, "done\n")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_when_the_first_leaves_the_next_one_goes_on(start, scripted, project, number):
    scripted("[hangs]")
    (project / "hangs.py").write_text((project / "script.py").read_text())
    scripted('[after(calls(("fs.read_text", {"path": "notes.md"}))), finishes("done")]')
    first = start("cast", "--crystal", "hangs.py:Script", "wait")
    (project / "asked").read_text()
    second = start("cast", "go")
    (project / "asked").read_text()
    first.signal(number)
    first.end()
    (project / "go").write_text("now")
    assert second.end()[:2] == (0, "done\n")


def test_two_casts_in_one_session_wait_for_each_other(start, scripted, project, coven):
    scripted("[picks] * 9")
    first = start("cast", "--session", "ada", "one")
    (project / "asked").read_text()
    second = start("cast", "--session", "ada", "two")
    while len(prompts(coven)) < 2:
        pass
    (project / "go").write_text("first")
    assert first.end()[:2] == (0, "first\n")
    assert second.end()[:2] == (0, "other\n")


@pytest.mark.parametrize(("command", "package", "extra"), [("serve", "starlette", "http"), ("acp", "acp", "acp")])
def test_a_protocol_that_is_not_installed_is_named_with_its_extra(project, command, package, extra):
    program = (
        f"import sys; sys.modules[{package!r}] = None; sys.argv = ['coven', {command!r}]\n"
        "from coven.cli import main; main()"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, f"pip install 'coven-bus[{extra}]'" in ran.stderr) == (2, True)


@pytest.mark.parametrize(
    ("leaf", "package", "extra"), [("discord", "discord", "discord"), ("web", "starlette", "http")]
)
def test_a_chat_that_is_not_installed_is_named_with_its_extra(project, monkeypatch, leaf, package, extra):
    monkeypatch.setenv("DISCORD_TOKEN", "canary")
    config = project / "coven.yaml"
    config.write_text(config.read_text().replace("leaf: console", f"leaf: {leaf}"))
    program = f"import sys; sys.modules[{package!r}] = None; sys.argv = ['coven', 'run']\n"
    program += "from coven.cli import main; main()"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, f"pip install 'coven-bus[{extra}]'" in ran.stderr) == (2, True)


async def test_a_killed_service_is_not_taken_for_one_that_runs():
    async with MemoryStore() as store:
        system = await store.open("coven", system_registry())
        here = socket.gethostname()
        child = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
        await child.wait()
        for service, host, state in [
            ("dead", f"{here}:{child.pid}:ab", State.RUNNING),
            ("alive", f"{here}:{os.getppid()}:ab", State.RUNNING),
            ("stopped", f"{here}:{os.getppid()}:ab", State.STOPPED),
            ("far", "elsewhere:1:ab", State.RUNNING),
        ]:
            await system.append(ServiceChanged(service=service, state=state, host=host), session=service)
        found = await running_elsewhere(store, ["dead", "alive", "stopped", "far", "never"])
        assert list(found) == ["alive", "far"]


def test_an_answer_goes_to_a_chat_only_if_the_chat_has_asked(coven, project):
    file = project / "coven.yaml"
    route = "  - AgentResponse -> ChatEfferentDraft\n"
    assert route in file.read_text()
    file.write_text(
        file.read_text().replace(route, "  - route: AgentResponse -> ChatEfferentDraft\n    when: origin == 'chat'\n")
    )
    assert coven("check", "--strict").code == 0
    assert coven("cast", "read notes.md").code == 0
    assert "ChatEfferent" not in coven("journal", "read", "chat").out


@pytest.mark.parametrize(
    ("finish", "why"),
    [("length", "at its limit of tokens (`max_tokens`)"), ("other", "by its provider")],
)
def test_an_answer_that_was_cut_off_is_told_beside_it(coven, scripted, finish, why):
    """Standard output has the answer as far as it came, and nothing else."""
    scripted(f'[says("Once upon a", finish="{finish}")]')
    ran = coven("cast", "--session", "tale", "tell me a story")
    assert (ran.code, ran.out) == (0, "Once upon a\n")
    assert ran.err == f"coven: the answer was cut off {why}\n"
    assert f"cut off ({finish})" in coven("loom", "show", "tale").out
    assert [turn["finish"] for turn in coven("loom", "show", "tale", "-o", "json").json["turns"]] == [finish]


def test_in_a_chat_it_is_told_behind_the_answer(start, scripted):
    scripted('[says("Once upon a", finish="length")]')
    running = start("run")
    running.type("tell me a story")
    ran = running.end()
    assert (ran.code, ran.out) == (
        0,
        "Once upon a\n\n(The answer was cut off here: it reached its limit of tokens.)\n",
    )


@pytest.mark.parametrize(
    ("script", "finish"),
    [
        ('[says("Once upon a", finish="length")]', "length"),
        ('[says("Once upon a time.")]', "stop"),
        ('[finishes("Once upon a time.")]', None),
        ('[fails(400, "no such model")]', None),
    ],
)
def test_json_tells_why_the_text_ends_that_is_the_answer(coven, scripted, script, finish):
    scripted(script)
    assert coven("cast", "--json", "tell me a story").json["finish"] == finish


def test_what_a_filter_stopped_is_a_failure_that_says_so(coven, scripted):
    scripted('[CrystalError("refused", "the provider\'s content filter stopped the answer")]')
    ran = coven("cast", "go")
    assert (ran.code, ran.out) == (1, "")
    assert "content filter stopped the answer" in ran.err
