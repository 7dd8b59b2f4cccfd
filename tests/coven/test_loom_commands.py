"""`coven loom`: what each command prints, and its exit codes."""

from __future__ import annotations

import asyncio
import json

import pytest

from branches.agents import AGENTS
from branches.agents.crystal import Usage
from branches.agents.entries import LastTurn
from branches.agents.internal import EntityForked
from branches.agents.naming import gate_call_id, turn_id
from coven.configuration import configure
from coven.link import Join, linked
from coven.testing import ManualClock
from tests.branches.agents.loom.story import Story, call

SEVERAL = """\
covenant:
  - ChatAfferent -> agents.AgentPrompt
  - agents.AgentResponse -> critics.AgentPrompt
  - critics.AgentResponse -> ChatEfferentDraft
  - {route: agents.AgentToolCall -> SpellInvocation, fault: AgentToolFault}
  - SpellResult -> agents.AgentToolResult
  - SpellFault -> agents.AgentToolFault
  - critics.AgentToolCall -> nowhere
  - agents.AgentChunk -> nowhere
  - agents.AgentStreamCompleted -> nowhere
  - agents.AgentThought -> nowhere
  - critics.AgentChunk -> nowhere
  - critics.AgentStreamCompleted -> nowhere
  - critics.AgentThought -> nowhere
"""


async def in_thread(run, *arguments: object):
    """A command makes an event loop of its own, so it cannot run in ours."""
    return await asyncio.to_thread(run, *arguments)


@pytest.fixture
async def turns(project) -> list[str]:
    """A thread with a child, and a fork of it; gives the ids of its own turns."""
    async with linked(configure(project / "coven.yaml", {}).config, Join.NEVER) as link:
        story = Story(await link.store.open("agents", AGENTS.registry()), ManualClock(), "console")
        run = await story.prompt("what is\x1b[31m here?")
        await story.cast()
        first = await story.calls(1, "one file")
        position = (await story.records())[-1].position
        second = await story.says(2, call("call_agent", intent="help"), content="I ask.", usage=Usage(1000, 200, 100))
        child = await story.summons(gate_call_id(run, 2, 0), "help")
        await story.asks(1, child)
        await story.child_returns(child, "helped", last=LastTurn(turn=1, usage=Usage(5, 5), duration_ms=1))
        await story.ends("no more turns", ending="truncated", ward="max_turns")
        fork = story.in_session("fork")
        await fork.forked("console", run, 1, position)
        await fork.prompt("and else?")
        await fork.cast()
        await fork.ends_by_text(1, "nothing")
        return [first, second, turn_id(child, 1), turn_id(fork.run, 1)]


def test_help_shows_every_command_with_an_example(coven):
    for command in ("list", "show", "export", "import", "reward", "fork"):
        ran = coven("loom", command, "--help")
        assert ran.code == 0
        assert "Example" in ran.out, command
        assert f"coven loom {command}" in ran.out


async def test_threads_are_listed(turns, coven):
    ran = await in_thread(coven, "loom", "list")
    header, *rows = ran.out.splitlines()
    assert header.split() == ["session", "turns", "tokens", "ending", "first", "intent"]
    assert [row.split()[:4] for row in rows] == [
        ["console", "3", "1,212", "truncated"],
        ["fork", "2", "10", "terminated"],
    ]
    assert "\x1b" not in ran.out
    listed = (await in_thread(coven, "loom", "list", "-o", "json")).json
    assert [(row["session"], row["ending"], row["forked_from"]) for row in listed] == [
        ("console", "truncated", None),
        ("fork", "terminated", turns[0]),
    ]
    assert listed[0]["usage"] == {"prompt": 1010, "completion": 202, "cached": 100}


async def test_an_empty_loom_says_so(project, coven):
    assert (await in_thread(coven, "loom", "list")).out == "there are no threads yet\n"
    ran = await in_thread(coven, "loom", "show", "console")
    assert ran.code == 2
    assert "has no turns" in ran.err


async def test_a_session_is_shown_as_a_tree(turns, coven):
    ran = await in_thread(coven, "loom", "show", "console")
    assert ran.code == 0
    lines = [line.rstrip() for line in ran.out.splitlines()]
    assert lines[0] == "session console  truncated, 3 turns, 1,010 + 202 tokens"
    assert lines[1].startswith("├── » what is")
    assert lines[2] == f"├── 1 {turns[0][:8]}  10 + 2 tokens"
    assert lines[3].endswith('echo(text="one file") → one file')
    assert "fork fork  terminated, 1 turn, 7 + 3 tokens" in lines[4]
    assert any("child " in line and "5 + 5 tokens" in line for line in lines)
    assert lines[-2].endswith("  truncated (max_turns)")
    assert lines[-1].endswith('call_agent(intent="help") → helped')
    assert "\x1b" not in ran.out
    assert (await in_thread(coven, "loom", "show", "fork")).out == ran.out, "a fork is shown with its original"


async def test_a_session_is_shown_as_json(turns, coven):
    shown = (await in_thread(coven, "loom", "show", "console", "-o", "json")).json
    assert [thread["turns"][0] for thread in shown["threads"]] == [turns[0], turns[0]]
    assert len(shown["turns"]) == 5
    assert shown["usage"]["prompt"] == 1022


async def test_turns_are_exported_and_read_again(turns, coven, tmp_path):
    target = tmp_path / "turns.jsonl"
    ran = await in_thread(coven, "loom", "export", target)
    assert (ran.code, ran.out, ran.err) == (0, "", "exported 5 turns in 2 threads\n")
    assert [json.loads(line)["id"] for line in target.read_text().splitlines()][:2] == turns[:2]
    assert (await in_thread(coven, "loom", "export", target)).code == 2
    assert (await in_thread(coven, "loom", "export", target, "--force")).code == 0
    again = await in_thread(coven, "loom", "import", target)
    assert again.out == (await in_thread(coven, "loom", "show", "console")).out
    one = await in_thread(coven, "loom", "export", "--session", "fork")
    assert len(one.lines) == 5, "with what it was forked from"


async def test_a_file_that_is_no_loom_is_refused_with_its_line(project, coven, tmp_path):
    (tmp_path / "bad.jsonl").write_text("\n{}\n")
    ran = await in_thread(coven, "loom", "import", tmp_path / "bad.jsonl")
    assert ran.code == 1
    assert "line 2: this is no turn" in ran.err
    assert (await in_thread(coven, "loom", "import", tmp_path / "missing.jsonl")).code == 1


async def test_a_turn_is_given_a_reward(turns, coven):
    ran = await in_thread(coven, "loom", "reward", turns[0][:8], "0.5", "--by", "Ada")
    assert (ran.code, ran.out) == (0, f"turn {turns[0]} has the reward 0.5\n")
    assert (await in_thread(coven, "loom", "reward", turns[0], "--", "-1")).code == 0
    assert "reward -1" in (await in_thread(coven, "loom", "show", "console")).out
    unknown = await in_thread(coven, "loom", "reward", "nothing", "1")
    assert unknown.code == 2
    assert "no turn of this loom" in unknown.err
    assert (await in_thread(coven, "loom", "reward", turns[0], "nan")).code == 2


def name_reward(project, function: str) -> None:
    """A circle with this function as its reward."""
    (project / "scores.py").write_text(function)
    path = project / "coven.yaml"
    text = path.read_text()
    if "reward:" not in text:
        path.write_text(text.replace("    circle:\n", "    circle:\n      reward: scores.py:score\n", 1))


async def test_the_circle_names_a_function_that_rewards(turns, coven, project):
    name_reward(project, "def score(turn):\n    return len(turn.gate_calls) or None\n")
    assert (await in_thread(coven, "check")).code == 0
    await in_thread(coven, "loom", "reward", turns[3], "7")

    async def rewards(*options: str) -> list[float | None]:
        return [line["reward"] for line in (await in_thread(coven, "loom", "export", *options)).lines]

    assert await rewards() == [1.0, None, None, 1.0, 7.0]
    assert await rewards("--rewards", "given") == [None, None, None, None, 7.0]
    assert await rewards("--rewards", "implicit") == [1.0, None, None, 1.0, 7.0]


async def test_a_reward_that_fails_is_said(turns, coven, project):
    name_reward(project, "def score(turn):\n    return 1 / 0\n")
    ran = await in_thread(coven, "loom", "show", "console")
    assert ran.code == 1
    assert f"the reward `scores.py:score` failed for turn {turns[0]}: ZeroDivisionError" in ran.err
    name_reward(project, "score = 1\n")
    checked = await in_thread(coven, "check")
    assert checked.code == 2
    assert "E407" in checked.out


async def test_a_turn_is_forked(turns, coven, project):
    ran = await in_thread(coven, "loom", "fork", turns[0][:8], "--session", "another-way")
    assert (ran.code, ran.out) == (0, "another-way\n")
    assert 'coven cast --session another-way "…"' in ran.err
    again = await in_thread(coven, "loom", "fork", turns[0], "--session", "another-way")
    assert again.code == 2
    async with linked(configure(project / "coven.yaml", {}).config, Join.NEVER) as link:
        journal = await link.store.open("agents", AGENTS.registry())
        last = await journal.last(session="another-way")
        assert last is not None
        assert isinstance(last.entry, EntityForked)
        assert (last.entry.session, turn_id(last.entry.run, last.entry.turn)) == ("console", turns[0])
    child = await in_thread(coven, "loom", "fork", turns[2])
    assert child.code == 2


async def test_the_agents_instance_is_named_where_there_are_several(project, coven):
    ran = await in_thread(coven, "loom", "list", "--agents", "oracle")
    assert ran.code == 2
    assert "there is no agents instance 'oracle'; this coven has agents" in ran.err


async def test_of_several_agents_instances_all_are_listed_and_a_session_is_found_where_it_is(turns, project, coven):
    path = project / "coven.yaml"
    text = path.read_text().replace("  # Spellcasting:", "  critics: {branch: agents, crystal: rehearsal}\n\n  # Spell")
    path.write_text(text.partition("covenant:")[0] + SEVERAL)
    async with linked(configure(path, {}).config, Join.NEVER) as link:
        story = Story(await link.store.open("critics", AGENTS.registry()), ManualClock(), "console")
        await story.prompt("what is wrong with it?")
        await story.cast()
        await story.ends_by_text(1, "nothing")
    listed = await in_thread(coven, "loom", "list")
    assert listed.out.split("\n")[0].split() == ["agents", "session", "turns", "tokens", "ending", "first", "intent"]
    assert [line.split()[:2] for line in listed.out.splitlines()[1:]] == [
        ["agents", "console"],
        ["agents", "fork"],
        ["critics", "console"],
    ]
    assert {each["agents"] for each in (await in_thread(coven, "loom", "list", "-o", "json")).json} == {
        "agents",
        "critics",
    }
    assert len((await in_thread(coven, "loom", "list", "--agents", "critics")).out.splitlines()) == 2
    assert (await in_thread(coven, "loom", "show", "fork")).code == 0
    both = await in_thread(coven, "loom", "show", "console")
    assert both.code == 2
    assert "has turns in agents and critics: say which with" in " ".join(both.err.replace("│", " ").split())
    forked = await in_thread(coven, "loom", "fork", turns[0], "--agents", "agents", "--session", "other")
    assert 'coven cast --agents agents --session other "…"' in forked.err
