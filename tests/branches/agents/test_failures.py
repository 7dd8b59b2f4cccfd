"""What failures get: each ends as it should, nothing is lost by it, and no other entity notices.

All of them happen at the same time, in one service, each to an entity of its own.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from branches.agents import AgentResponse, AgentToolResult
from branches.agents.call import Call
from branches.agents.cantrip import Cantrip
from branches.agents.circle import circle
from branches.agents.crystal import CrystalRequest, CrystalResponse, ToolCall
from branches.agents.loom import read_loom
from branches.agents.service import AgentsService
from branches.agents.wards import Ward
from coven.testing import ManualClock, ScriptedCrystal, calls, finishes, says
from coven.testing.scripted import answers_openai, drops, fails, runs
from journals import Record, Store
from leaves.mediums.javascript import JavaScript
from leaves.mediums.python import Python
from tests.branches.agents.bench import Bench

HUGE = 10_000_000
over = threading.Event()


def echo(text: str) -> str:
    """Say it again."""
    return text


def explode() -> str:
    """Explode."""
    raise ZeroDivisionError("boom")


def hang() -> str:
    """Hang."""
    over.wait()
    return "too late"


def odd() -> object:
    """Give what JSON cannot hold."""
    return object()


def huge() -> str:
    """Give ten megabytes."""
    return "x" * HUGE


async def never(request: CrystalRequest) -> CrystalResponse:
    """A provider that hangs."""
    await asyncio.Event().wait()
    raise AssertionError


NOTHING: dict[str, Any] = {"choices": [{"message": {"content": None}}]}
ENDS: dict[str, tuple[Any, str, str]] = {
    "nothing": (CrystalResponse(), "failed", "crystal returned neither content nor tool_calls"),
    "nothing and an error": (
        answers_openai({**NOTHING, "error": {"message": "out of order", "code": 400}}),
        "failed",
        "out of order",
    ),
    "duplicate ids": (
        CrystalResponse(tool_calls=(ToolCall("1", "echo"), ToolCall("1", "echo"))),
        "failed",
        "duplicate tool call ID",
    ),
    "invalid Unicode": (says("\ud83e"), "failed", "not valid Unicode"),
    "400": (fails(400, "bad request"), "failed", "bad request"),
    "401": (fails(401, "wrong key"), "failed", "wrong key"),
    "a provider that hangs": (never, "truncated", "when its time was up"),
    "ten megabytes of text": (says("x" * HUGE), "terminated", "x" * HUGE),
}
"""What a crystal answers, and how the episode ends, with what words."""

PASSES: dict[str, Any] = {
    "429 with retry-after": fails(429, "slow down", retry_after="30"),
    "a stream that is dropped half way": drops("half of"),
}
"""What passes when it is tried again."""

SEEN: dict[str, tuple[CrystalResponse, str]] = {
    "arguments that are no JSON": (calls(("echo", '{"text": ')), "bad_arguments"),
    "arguments that are no Unicode": (calls(("echo", '{"text": "\\ud83e"}')), "bad_arguments"),
    "a gate that does not exist": (calls(("nope", {})), "unknown_gate"),
    "done without its answer": (calls(("done", {})), "bad_arguments"),
    "a gate that raises": (calls(("explode", {})), "failed: boom"),
    "a gate that hangs": (calls(("hang", {})), "timeout"),
    "a gate that gives what JSON cannot hold": (calls(("odd", {})), "bad_result"),
    "a gate that gives ten megabytes": (calls(("huge", {})), "characters left out"),
}
"""What an entity calls, and what it is shown."""

CODE: dict[str, dict[str, tuple[str, str]]] = {
    "javascript": {
        "loops": ("for (;;);", "time"),
        "recurses": ("function f() { return f() + 1 } f()", "RangeError"),
        "allocates without end": ("var a = []; for (;;) a.push(new Array(1000).fill(a.length))", "Error"),
        "builds a catastrophic regular expression": ("/^(a+)+$/.test('a'.repeat(60) + 'b')", "time"),
        "redefines gates": ("echo = () => 'mine'; done = () => {}; throw new Error('tried')", "tried"),
        "poisons prototypes": ("Object.prototype.toJSON = () => 'bad'; Array.prototype.map = null; echo('x')", ""),
        "tries for files": ("require('fs').readFileSync('/etc/passwd')", "ReferenceError"),
        "tries for processes": ("process.kill(1)", "ReferenceError"),
        "tries for the network": ("fetch('http://localhost')", "ReferenceError"),
        "tries for the host's objects": ("echo.constructor.constructor('return process')()", "ReferenceError"),
        "tries for another's state": ("secret", "ReferenceError"),
    },
    "python": {
        "loops": ("while True: pass", "time"),
        "recurses": ("def f(): return f() + 1\nf()", "RecursionError"),
        "allocates without end": ("a = []\nwhile True: a.append([len(a)] * 1000)", "Error"),
        "builds a catastrophic regular expression": (
            "import re\nre.match(r'(a|aa)+$', 'a' * 60 + 'b')\n1 / 0",
            "Error",
        ),
        "redefines gates": ("echo = lambda text: 'mine'\ndone = echo\n1 / 0", "ZeroDivisionError"),
        "poisons prototypes": ("str.upper = 1", "Error"),
        "tries for files": ("open('/etc/passwd').read()", "Error"),
        "tries for processes": ("import os\nos.kill(1, 9)", "Error"),
        "tries for the network": ("import socket\nsocket.socket()", "Error"),
        "tries for the host's objects": ("echo.__globals__", "Error"),
        "tries for another's state": ("secret", "NameError"),
    },
}
"""Code, by medium, and what its entity is shown."""

GATES = ("done", echo, explode, hang, odd, huge)
CPU_S = {"tools": 1.0, "javascript": 0.3, "python": 3.0}
"""Seconds that code may compute: in Python it counts also those in which it waits for its turn on a busy machine."""
WARDS = (Ward(max_turns=5), Ward(max_seconds=600), Ward(max_memory_mb=32))


class Place:
    """One service, where each session's entity works under a cantrip of its own."""

    def __init__(self, bench: Bench, service: AgentsService) -> None:
        self.bench, self.service = bench, service
        self.crystals: dict[str, ScriptedCrystal] = {}
        self._asked = 0

    async def ask(self, session: str, *script: Any, medium: str = "tools") -> Record[Any]:
        """A prompt to an entity with this script; those of code may keep a secret."""
        crystal = self.crystals[session] = ScriptedCrystal(script)
        made = Cantrip(crystal, Call(), circle(GATES, (*WARDS, Ward(max_cpu_s=CPU_S[medium])), medium))
        self.service.bind(session, made)
        self._asked += 1
        return await self.bench.ask(f"prompt {self._asked}", session)

    def shown(self, session: str) -> str:
        """What the entity was shown of its first call."""
        return self.crystals[session].requests[1].messages[-1].content or ""


@pytest.fixture
async def place(store: Store) -> AsyncIterator[Place]:
    bench, mediums = Bench(store), {"javascript": JavaScript(), "python": Python()}
    bench.clock = ManualClock(time.time())  # the store's own records carry the time of day
    nobody = Cantrip(ScriptedCrystal([]), Call(), circle(GATES, WARDS))
    async with bench.serve(nobody.crystal, cantrip=nobody, medium=mediums.__getitem__) as service:
        yield Place(bench, service)
        over.set()
    over.clear()
    for medium in mediums.values():
        await medium.close()


async def test_each_gets_what_it_should_at_the_same_time_and_nobody_else_notices(place: Place) -> None:
    bench, asked = place.bench, dict[str, Record[Any]]()
    for medium in CODE:
        keeps = "var secret = 'mine'; done('kept')" if medium == "javascript" else "secret = 'mine'\ndone('kept')"
        prompt = await place.ask(f"neighbour in {medium}", runs(keeps), medium=medium)
        assert (await bench.response(prompt)).text == "kept"
    for name, (answer, _, _) in ENDS.items():
        asked[name] = await place.ask(name, answer)
    for name, answer in PASSES.items():
        asked[name] = await place.ask(name, answer, finishes("went on"))
    for name, (answer, _) in SEEN.items():
        asked[name] = await place.ask(name, answer, finishes("went on"))
    for medium, codes in CODE.items():
        for name, (code, _) in codes.items():
            session = f"{medium} {name}"
            asked[session] = await place.ask(session, runs(code), runs("done(echo('went on'))"), medium=medium)

    for medium in CODE:
        again = await place.ask(f"neighbour in {medium}", runs("echo(secret)"), runs("done(secret)"), medium=medium)
        assert (await bench.response(again)).text == "mine"
    await bench.wait("CrystalRetried", len(PASSES))
    soon, last = {"a gate that hangs", *PASSES}, {"a provider that hangs"}
    responses = {name: await bench.response(asked[name]) for name in asked.keys() - soon - last}
    await bench.clock.until_pending(2 * len(soon) + len(last))  # each has a ward for time, and most wait for more
    for waiting, seconds in ((soon, 60), (last, 3600)):
        bench.clock.advance(seconds)
        responses |= {name: await bench.response(asked[name]) for name in waiting}

    for name, (_, ending, words) in ENDS.items():
        assert (responses[name].ending, words in responses[name].text) == (ending, True), responses[name].text[:500]
    for name in responses.keys() - ENDS.keys():
        assert (name, responses[name].ending, responses[name].text) == (name, "terminated", "went on")
    shown = {**SEEN, **{f"{medium} {name}": row for medium, codes in CODE.items() for name, row in codes.items()}}
    assert [(name, place.shown(name)) for name, (_, words) in shown.items() if words not in place.shown(name)] == []
    await nothing_is_lost(place, responses)


async def nothing_is_lost(place: Place, responses: dict[str, AgentResponse]) -> None:
    """Every episode stands in the loom with its ending, and every entity can be asked again."""
    loom = await read_loom(await place.bench.open())
    endings = {turn.session: turn.ending for turn in loom.turns if turn.ending is not None}
    assert {name: endings[name] for name in responses} == {name: each.ending for name, each in responses.items()}
    assert loom.unreadable == ()
    for name in responses:
        medium = name.partition(" ")[0]
        last = runs("done(echo('here'))") if medium in CODE else says("here")
        prompt = await place.ask(name, last, medium=medium if medium in CODE else "tools")
        assert (name, (await place.bench.response(prompt)).text) == (name, "here")


async def test_a_result_for_a_call_that_was_never_made_changes_nothing(place: Place) -> None:
    journal = await place.bench.open()
    stray = AgentToolResult(correlation_id="never made", result="surprise")
    await journal.append(stray, session="s", id="stray")
    prompt = await place.ask("s", calls(("echo", {"text": "x"})), finishes("ok"))
    assert (await place.bench.response(prompt)).text == "ok"
    await journal.append(stray, session="s", id="another stray", cause=prompt)
    again = await place.ask("s", says("still ok"))
    assert (await place.bench.response(again)).text == "still ok"
    assert not any("surprise" in turn.observation for turn in (await read_loom(journal)).turns)
