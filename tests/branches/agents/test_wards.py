"""Wards are enforced by the circle: they subtract, and the entity cannot get around them (CIRCLE-6, D-009)."""

from __future__ import annotations

import asyncio

import pytest

from branches.agents.call import Call, Sampling
from branches.agents.cantrip import Cantrip, InvalidCantrip
from branches.agents.circle import circle
from branches.agents.crystal import Crystal, CrystalRequest, CrystalResponse, Usage
from branches.agents.folding import Folding
from branches.agents.internal import CrystalCalled
from branches.agents.reach import out_of_reach
from branches.agents.wards import DEFAULT_DEPTH, Ward, Wards, resolve
from coven.testing import ScriptedCrystal, calls, finishes, says
from tests.branches.agents.bench import Bench, Hanging


def echo(text: str) -> str:
    """Say it again."""
    return text


def cantrip(crystal: Crystal, *wards: Ward, **more: object) -> Cantrip:
    gates = ["done", "call_agent", "call_agent_batch", echo]
    return Cantrip(crystal, Call(sampling=Sampling(max_tokens=100)), circle(gates, wards), **more)  # type: ignore[arg-type]


def test_of_several_numbers_the_most_restrictive_holds() -> None:
    made = resolve([Ward(max_turns=9, max_depth=3), Ward(max_turns=4, max_seconds=5), Ward(max_depth=2, max_tokens=7)])
    assert (made.max_turns, made.max_depth, made.max_seconds, made.max_tokens) == (4, 2, 5, 7)


def test_of_restrictions_all_hold() -> None:
    made = resolve([Ward(remove_gate="a"), Ward(remove_gate=("b", "a"), require_done_tool=True), Ward()])
    assert (made.removed, made.require_done_tool) == (("a", "b"), True)
    narrow = resolve([Ward(narrow={"read": {"path": "data/*"}}), Ward(narrow={"read": {"path": "*.md"}})]).narrow
    assert narrow == {"read": {"path": ("data/*", "*.md")}}


def test_without_a_ward_children_may_not_have_children() -> None:
    assert resolve([]) == Wards(max_depth=DEFAULT_DEPTH)


def test_a_circle_that_nothing_would_end_is_no_cantrip() -> None:
    with pytest.raises(InvalidCantrip, match="at least one truncation ward"):
        cantrip(ScriptedCrystal([]))
    with pytest.raises(InvalidCantrip, match="must have a done gate"):
        cantrip(ScriptedCrystal([]), Ward(max_turns=1, remove_gate="done"))
    cantrip(ScriptedCrystal([]), Ward(max_seconds=1))


@pytest.mark.parametrize(
    ("value", "allowed"),
    [
        ("data/a.txt", True),
        ("data/deep/a.txt", True),
        ("./data/a.txt", True),
        ("data", True),
        ("secret/a.txt", False),
        ("data/../secret/a.txt", False),
        ("/data/a.txt", False),
        ("database/a.txt", False),
        (7, False),
        (None, False),
    ],
)
def test_a_narrowed_gate_reaches_no_further_than_its_pattern(value: object, allowed: bool) -> None:
    reason = out_of_reach({"path": ("data/*",)}, {"path": value})
    assert (reason is None) is allowed
    assert reason is None or "gate not available" in reason


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://example.org/a", True),
        ("https://example.org", True),
        ("https://example.org/a/../b", True),
        ("https://example.org/a/../../b", False),
        ("https://example.org@evil.example/a", False),
        ("https://example.org.evil.example/a", False),
        ("http://example.org/a", False),
        ("https://evil.example/../example.org/a", False),
        ("https://evil.example/?/../../example.org/a", False),
        ("https://evil.example/#/../../example.org/a", False),
        ("https://evil.example\\@example.org/a", False),
        ("HTTPS://example.org/a?b=/../c", True),
    ],
)
def test_an_address_is_narrowed_with_its_host(url: str, allowed: bool) -> None:
    assert (out_of_reach({"url": ("https://example.org/*",)}, {"url": url}) is None) is allowed


def test_a_dot_that_is_written_in_hexadecimal_is_one() -> None:
    narrow = {"url": ("https://example.org/public/*",)}
    assert out_of_reach(narrow, {"url": "https://example.org/public/%2e%2E/private"})
    assert out_of_reach(narrow, {"url": "https://example.org/public/%2e/open"}) is None


async def test_a_removed_gate_is_not_offered_and_says_so_when_it_is_called_anyway() -> None:
    bench, crystal = Bench(), ScriptedCrystal([calls(("echo", {"text": "x"})), finishes("ok")])
    made = cantrip(crystal, Ward(max_turns=3), Ward(remove_gate="echo"))
    async with bench.serve(crystal, cantrip=made):
        await bench.talk("go")
    assert "echo" not in [tool.name for tool in crystal.requests[0].tools]
    assert "gate not available" in (crystal.requests[1].messages[-1].content or "")


async def test_at_depth_zero_delegation_is_removed_and_each_child_is_one_less_deep() -> None:
    bench, crystal = Bench(), ScriptedCrystal([calls(("call_agent", {"intent": "one"})), finishes("ok")])
    inner = ScriptedCrystal([calls(("call_agent", {"intent": "two"})), finishes("inner")])
    made = cantrip(crystal, Ward(max_turns=3), Ward(max_depth=1), child_crystals=(inner,))
    async with bench.serve(crystal, cantrip=made):
        assert (await bench.talk("go")).text == "ok"
    assert [tool.name for tool in inner.requests[0].tools] == ["done", "echo"]
    assert "max_depth is reached" in (inner.requests[1].messages[-1].content or "")


async def test_tokens_are_reserved_before_each_request_and_what_was_not_used_is_free_again() -> None:
    bench = Bench()
    answers = [calls(("echo", {"text": "x"}), usage=Usage(prompt=150, completion=50)) for _ in range(5)]
    crystal = ScriptedCrystal(answers)
    made = cantrip(crystal, Ward(max_turns=9), Ward(max_tokens=600))
    async with bench.serve(crystal, cantrip=made):
        response = await bench.talk("go")
    assert (response.ending, response.ward) == ("truncated", "max_tokens")
    assert len(crystal.requests) == 2


async def test_what_was_spent_before_a_restart_counts_once() -> None:
    bench, hangs = Bench(), Hanging([calls(("echo", {"text": "x"}), usage=Usage(prompt=150, completion=50))] * 2)
    wards = (Ward(max_turns=9), Ward(max_tokens=1000))
    async with bench.serve(hangs, cantrip=cantrip(hangs, *wards)):
        prompt = await bench.ask("go")
        await hangs.hung.wait()
    again = ScriptedCrystal([finishes("ok")])
    async with bench.serve(again, cantrip=cantrip(again, *wards)):
        assert (await bench.response(prompt)).text == "ok"
    reserved = [e.reserved for r in await bench.records() if isinstance(e := r.entry, CrystalCalled)]
    assert sum(reserved[2:]) + 400 <= 1000


async def test_a_request_that_was_cut_off_may_have_been_paid_for() -> None:
    bench, hangs = Bench(), Hanging([])
    wards = (Ward(max_turns=9), Ward(max_tokens=150))
    async with bench.serve(hangs, cantrip=cantrip(hangs, *wards)):
        prompt = await bench.ask("go")
        await hangs.hung.wait()
    again = ScriptedCrystal([])
    async with bench.serve(again, cantrip=cantrip(again, *wards)):
        response = await bench.response(prompt)
    assert (response.ending, response.ward, len(again.requests)) == ("truncated", "max_tokens", 0)


async def test_a_summary_is_made_of_tokens_that_are_left() -> None:
    for most, summaries in ((4000, 1), (900, 0)):
        bench = Bench()
        crystal = ScriptedCrystal(
            [calls(("echo", {"text": "x"})), calls(("echo", {"text": "y"})), says("they echoed"), finishes("ok")]
            if summaries
            else [calls(("echo", {"text": "x"})), calls(("echo", {"text": "y"})), finishes("ok")]
        )
        folding = Folding(strategy="summary", keep_turns=1, trigger_after_turns=1)
        made = cantrip(crystal, Ward(max_turns=9), Ward(max_tokens=most), folding=folding)
        async with bench.serve(crystal, cantrip=made):
            response = await bench.talk("go")
        told = [e for r in await bench.records() if isinstance(e := r.entry, CrystalCalled)]
        asked = [each for each in told if each.summarises]
        assert response.text == "ok"
        assert [each.reserved > 1024 for each in asked] == [True] * summaries


async def test_children_spend_their_parents_tokens() -> None:
    bench = Bench()
    crystal = ScriptedCrystal([calls(("call_agent", {"intent": "spend"})), finishes("ok")])
    inner = ScriptedCrystal([says("done", usage=Usage(prompt=5000, completion=0))])
    made = cantrip(crystal, Ward(max_turns=9), Ward(max_tokens=2000), child_crystals=(inner,))
    async with bench.serve(crystal, cantrip=made):
        response = await bench.talk("go")
    assert (response.ward, len(crystal.requests)) == ("max_tokens", 1)


async def test_when_its_time_is_up_an_episode_is_truncated_wherever_it_is() -> None:
    bench, asked = Bench(), asyncio.Event()

    async def hangs(_: CrystalRequest) -> CrystalResponse:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    crystal = ScriptedCrystal([calls(("echo", {"text": "x"})), hangs, finishes("next")])
    made = cantrip(crystal, Ward(max_seconds=5))
    async with bench.serve(crystal, cantrip=made):
        prompt = await bench.ask("go")
        await asked.wait()
        bench.clock.advance(5)
        response = await bench.response(prompt)
        assert (response.ending, response.ward) == ("truncated", "max_seconds")
        assert (await bench.talk("again")).text == "next"


async def test_a_crystal_that_fails_for_a_reason_of_its_own_has_not_used_up_the_time() -> None:
    async def late(request: object) -> CrystalResponse:
        raise TimeoutError("a bug of the crystal")

    for wards in ((Ward(max_turns=3),), (Ward(max_turns=3), Ward(max_seconds=60))):
        bench, crystal = Bench(), ScriptedCrystal([late])
        await bench.ask("go")
        service = await bench.service(crystal, cantrip=Cantrip(crystal, Call(), circle(["done"], wards)))
        with pytest.raises(TimeoutError, match="a bug of the crystal"):
            await service.run(lambda: None)


async def test_an_episode_that_is_found_after_its_time_is_truncated_at_once() -> None:
    bench, asked = Bench(), asyncio.Event()

    async def hangs(_: CrystalRequest) -> CrystalResponse:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    crystal = ScriptedCrystal([hangs, hangs])
    made = cantrip(crystal, Ward(max_seconds=5))
    async with bench.serve(crystal, cantrip=made):
        prompt = await bench.ask("go")
        await asked.wait()
    bench.clock.advance(60)
    async with bench.serve(crystal, cantrip=made):
        await bench.clock.until_pending()
        bench.clock.advance(0)
        assert (await bench.response(prompt)).ward == "max_seconds"
