"""What we give to tests: a crystal with a script, and a clock that stands still."""

from __future__ import annotations

import asyncio
import json

import pytest

from branches.agents import CrystalError, CrystalRequest, CrystalResponse, Message, Usage
from coven.testing import (
    ManualClock,
    ScriptedCrystal,
    ScriptExhausted,
    answers_openai,
    at_once,
    calls,
    drops,
    fails,
    finishes,
    runs,
    says,
)

REQUEST = CrystalRequest([Message("user", "hi")])


async def test_a_scripted_crystal_answers_in_order_and_keeps_the_requests() -> None:
    crystal = ScriptedCrystal([says("one"), calls(("echo", {"text": "two"})), finishes("three")])
    answers = [await crystal.invoke(REQUEST) for _ in range(3)]
    assert answers[0] == CrystalResponse(content="one", finish="stop")
    assert [(c.id, c.gate, json.loads(c.arguments)) for c in answers[1].tool_calls] == [
        ("call_1", "echo", {"text": "two"})
    ]
    assert answers[2].tool_calls[0].gate == "done"
    assert crystal.requests == [REQUEST] * 3
    assert repr(crystal) == "<ScriptedCrystal 3 of 3 answers given>"


async def test_an_exhausted_script_says_what_was_asked() -> None:
    crystal = ScriptedCrystal([])
    with pytest.raises(
        ScriptExhausted, match="asked 1 times, its script has 0 answers; the last message was user: 'hi'"
    ):
        await crystal.invoke(REQUEST)


async def test_an_answer_may_be_an_error_or_a_function() -> None:
    async def later(request: CrystalRequest) -> CrystalResponse:
        return says(f"{request.messages[0].content} later")

    crystal = ScriptedCrystal([CrystalError("unavailable", "down"), lambda request: says("now"), later])
    with pytest.raises(CrystalError, match="down"):
        await crystal.invoke(REQUEST)
    assert (await crystal.invoke(REQUEST)).content == "now"
    assert (await crystal.invoke(REQUEST)).content == "hi later"


async def test_a_scripted_crystal_streams_line_by_line() -> None:
    heard: list[str] = []
    await ScriptedCrystal([says("one\ntwo")]).invoke(REQUEST, heard.append)
    assert heard == ["one\n", "two"]


async def test_a_manual_clock_rings_in_order_when_it_is_moved() -> None:
    clock, rung = ManualClock(100.0), list[str]()
    clock.call_at(120, lambda: rung.append("second"))
    clock.call_at(110, lambda: rung.append("first"))
    clock.call_at(115, lambda: rung.append("never")).cancel()
    clock.call_at(90, lambda: rung.append("overdue"))
    assert (clock.now(), clock.pending) == (100.0, 3)
    clock.advance(0)
    assert rung == ["overdue"]
    clock.advance(20)
    assert rung == ["overdue", "first", "second"]
    assert clock.now() == 120.0


async def test_a_test_may_wait_until_an_alarm_is_set() -> None:
    clock = ManualClock()
    waiting = asyncio.create_task(clock.until_pending(2))
    clock.call_at(1, lambda: None)
    await asyncio.sleep(0)
    assert not waiting.done()
    clock.call_at(2, lambda: None)
    await waiting


async def test_a_script_may_have_a_usage_for_all_and_an_answer_for_whoever_asks_on() -> None:
    crystal = ScriptedCrystal([says("a"), says("b", usage=Usage(1, 1))], usage=Usage(9, 9), otherwise=says("more"))
    answers = [await crystal.invoke(REQUEST) for _ in range(4)]
    assert [(a.content, a.usage) for a in answers] == [
        ("a", Usage(9, 9)),
        ("b", Usage(1, 1)),
        ("more", Usage(9, 9)),
        ("more", Usage(9, 9)),
    ]
    assert (crystal.remaining, repr(crystal)) == (0, "<ScriptedCrystal 2 of 2 answers given>")


async def test_a_provider_that_fails_says_its_status_and_when_to_come_back() -> None:
    crystal = ScriptedCrystal([fails(429, "rate limited", retry_after="7"), fails(401, "who are you?")])
    with pytest.raises(CrystalError, match="rate limited") as limited:
        await crystal.invoke(REQUEST)
    with pytest.raises(CrystalError) as refused:
        await crystal.invoke(REQUEST)
    assert (limited.value.code, limited.value.status, limited.value.retry_after_s) == ("rate_limited", 429, 7.0)
    assert (refused.value.code, refused.value.status, refused.value.retry_after_s) == ("unauthorized", 401, None)


async def test_an_answer_may_be_cut_off_half_way() -> None:
    heard: list[str] = []
    with pytest.raises(CrystalError, match="before the answer was whole") as broken:
        await ScriptedCrystal([drops("one\ntw")]).invoke(REQUEST, heard.append)
    assert (broken.value.code, heard) == ("unreachable", ["one\n", "tw"])


async def test_an_answer_may_stand_as_a_provider_sends_it() -> None:
    raw = {"choices": [{"message": {"content": "hello"}}], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}
    crystal = ScriptedCrystal([answers_openai(raw), answers_openai({"choices": []})])
    assert await crystal.invoke(REQUEST) == CrystalResponse(content="hello", usage=Usage(3, 1), finish="stop")
    with pytest.raises(CrystalError, match="no message"):
        await crystal.invoke(REQUEST)


async def test_code_is_a_call_of_the_one_tool_for_it() -> None:
    (call,) = runs("done(1)").tool_calls
    assert (call.gate, json.loads(call.arguments)) == ("execute", {"code": "done(1)"})


async def test_answers_at_once_wait_for_each_other() -> None:
    crystal = ScriptedCrystal([*at_once(says("a"), says("b")), says("c")])
    first = asyncio.create_task(crystal.invoke(REQUEST))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not first.done()
    assert (await crystal.invoke(REQUEST)).content == "b"
    assert (await first).content == "a"
    assert (await crystal.invoke(REQUEST)).content == "c"
