"""An answer that came and was of no use is paid for like any other, so its tokens are recorded, told and counted."""

from __future__ import annotations

from typing import Any

import pytest

from branches.agents.call import Call
from branches.agents.cantrip import Cantrip
from branches.agents.circle import circle
from branches.agents.crystal import (
    Crystal,
    CrystalError,
    CrystalRequest,
    CrystalResponse,
    Message,
    Sampling,
    ToolCall,
    Usage,
    validate,
)
from branches.agents.events import UsageEvent, follow
from branches.agents.folding import Folding
from branches.agents.gates import DONE
from branches.agents.insist import Insisting
from branches.agents.internal import ContextFolded, CrystalCalled
from branches.agents.loom import read_loom
from branches.agents.wards import Ward
from coven.testing import ScriptedCrystal, calls, finishes, says
from tests.branches.agents.bench import Bench, Hanging

USED = Usage(prompt=500, completion=50, cached=20)
EMPTY = CrystalResponse(usage=USED)
REQUIRED = CrystalRequest((Message("user", "go"),), (DONE,), "required")


def refused() -> CrystalError:
    return CrystalError("refused", "the model declined", usage=USED)


def echo(text: str) -> str:
    """Say it again."""
    return text


def with_budget(crystal: Crystal, most: int, child: Crystal | None = None) -> Cantrip:
    children = () if child is None else (child,)
    wards, gates = [Ward(max_turns=9), Ward(max_tokens=most)], ["done", "call_agent"]
    return Cantrip(crystal, Call(sampling=Sampling(max_tokens=100)), circle(gates, wards), child_crystals=children)


def test_a_response_that_breaks_the_contract_has_used_its_tokens() -> None:
    with pytest.raises(CrystalError, match="neither content nor tool_calls") as caught:
        validate(EMPTY, REQUIRED)
    assert caught.value.usage == USED


@pytest.mark.parametrize("usage", [None, "many", {"prompt": "many"}, Usage(prompt="many")])  # type: ignore[arg-type]
def test_a_response_without_readable_tokens_is_as_invalid_as_before(usage: Any) -> None:
    with pytest.raises(CrystalError, match="neither content nor tool_calls") as caught:
        validate(CrystalResponse(usage=usage), REQUIRED)
    assert caught.value.usage == Usage()


async def test_a_crystal_that_never_calls_has_used_the_tokens_of_every_attempt() -> None:
    within = ScriptedCrystal([says("well", usage=USED), says("well", usage=USED)])
    with pytest.raises(CrystalError) as caught:
        await Insisting(within, attempts=2).invoke(REQUIRED)
    assert caught.value.usage == USED + USED


async def test_where_an_attempt_fails_those_before_it_are_counted() -> None:
    within = ScriptedCrystal([says("well", usage=USED), refused()])
    with pytest.raises(CrystalError) as caught:
        await Insisting(within).invoke(REQUIRED)
    assert caught.value.usage == USED + USED


@pytest.mark.parametrize("answer", [refused(), EMPTY])
async def test_the_loom_and_the_events_of_a_failed_turn_tell_its_tokens(answer: CrystalError | CrystalResponse) -> None:
    bench, crystal = Bench(), ScriptedCrystal([answer])
    async with bench.serve(crystal):
        prompt = await bench.ask("go")
        assert (await bench.response(prompt)).ending == "failed"
    journal = await bench.open()
    loom = await read_loom(journal)
    assert loom.usage() == USED
    assert loom.turns[0].metadata.tokens_cached == 20
    told = [event async for event in follow(journal, prompt) if isinstance(event, UsageEvent)]
    assert [(event.usage, event.total) for event in told] == [(USED, USED)]


async def test_a_failure_that_nothing_was_paid_for_tells_no_tokens() -> None:
    bench, crystal = Bench(), ScriptedCrystal([CrystalError("unauthorized", "no such key", status=401)])
    async with bench.serve(crystal):
        prompt = await bench.ask("go")
        await bench.response(prompt)
    (failed,) = await bench.records("CrystalFailed")
    assert failed.entry.usage == Usage()  # type: ignore[attr-defined]
    assert not [event async for event in follow(await bench.open(), prompt) if isinstance(event, UsageEvent)]


@pytest.mark.parametrize(("most", "asked"), [(620, 1), (1000, 2)])
async def test_a_childs_refused_answer_is_taken_from_its_parents_tokens_and_no_more_than_it(
    most: int, asked: int
) -> None:
    bench, crystal = Bench(), ScriptedCrystal([calls(("call_agent", {"intent": "go"})), finishes("ok")])
    made = with_budget(crystal, most, ScriptedCrystal([refused()]))
    async with bench.serve(crystal, cantrip=made):
        response = await bench.talk("go")
    assert len(crystal.requests) == asked
    assert response.ward == (None if asked == 2 else "max_tokens")


async def test_what_a_refused_answer_used_before_a_restart_counts_once() -> None:
    bench, hangs = Bench(), Hanging([calls(("call_agent", {"intent": "go"}))])
    async with bench.serve(hangs, cantrip=with_budget(hangs, 1000, ScriptedCrystal([refused()]))):
        prompt = await bench.ask("go")
        await hangs.hung.wait()
    again = ScriptedCrystal([finishes("ok")])
    async with bench.serve(again, cantrip=with_budget(again, 1000, ScriptedCrystal([]))):
        assert (await bench.response(prompt)).text == "ok"
    called = [entry for record in await bench.records() if isinstance(entry := record.entry, CrystalCalled)]
    assert [entry.run for entry in called].count(called[0].run) == 3
    assert len(called) == 4


@pytest.mark.parametrize("last", [calls(("done", {"answer": "ok"}), usage=USED), refused()])
async def test_what_an_attempt_has_used_before_it_failed_is_told_with_the_last_one(
    last: CrystalError | CrystalResponse,
) -> None:
    """It talked first, and then the provider wanted to be left alone."""
    busy = CrystalError("rate_limited", "slow down", status=429)
    bench = Bench()
    crystal = Insisting(ScriptedCrystal([says("well", usage=USED), busy, last]))
    made = Cantrip(crystal, Call(tool_choice="required"), circle(["done"], [Ward(max_turns=9)]))
    async with bench.serve(crystal, cantrip=made):
        prompt = await bench.ask("go")
        await bench.wait("CrystalRetried")
        await bench.clock.until_pending()
        bench.clock.advance(60)
        await bench.response(prompt)
    assert (await read_loom(await bench.open())).usage() == USED + USED


FOLDING = Folding(strategy="summary", keep_turns=1, trigger_after_turns=1)


async def folded(summary: CrystalResponse | CrystalError) -> tuple[ContextFolded, ScriptedCrystal]:
    bench = Bench()
    crystal = ScriptedCrystal([calls(("echo", {"text": "x"})), calls(("echo", {"text": "y"})), summary, finishes("ok")])
    made = Cantrip(crystal, Call(), circle(["done", echo], [Ward(max_turns=9)]), folding=FOLDING)
    async with bench.serve(crystal, cantrip=made):
        assert (await bench.talk("go")).text == "ok"
    (record,) = await bench.records("ContextFolded")
    assert isinstance(record.entry, ContextFolded)
    return record.entry, crystal


async def test_a_summary_that_was_refused_is_paid_for_and_the_turns_are_named_instead() -> None:
    entry, _ = await folded(refused())
    assert (entry.summary, entry.usage) == ("", USED)


async def test_a_summary_that_was_cut_off_says_so_to_who_goes_on_from_it() -> None:
    entry, crystal = await folded(says("They ech", finish="length"))
    assert entry.summary == "They ech\n[this summary was cut off here]"
    shown = [message.content or "" for message in crystal.requests[-1].messages]
    assert any("cut off here" in text for text in shown)


async def test_a_summary_that_is_a_tool_call_is_none() -> None:
    entry, _ = await folded(CrystalResponse(tool_calls=(ToolCall("a", "echo", "{}"),), usage=USED))
    assert (entry.summary, entry.usage) == ("", USED)
