"""The wall time of an episode stands still while people are asked, by the times that are recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branches.agents.call import Call
from branches.agents.cantrip import Cantrip
from branches.agents.circle import circle
from branches.agents.crystal import CrystalRequest, CrystalResponse
from branches.agents.entries import ApprovalAsked, ApprovalGiven
from branches.agents.naming import APPROVAL
from branches.agents.standstill import due
from branches.agents.wards import Ward
from coven.testing import ScriptedCrystal, calls, finishes
from coven.testing.scripted import runs
from leaves.mediums.javascript import JavaScript
from policies import CallTime
from tests.branches.agents.bench import Bench, Playbook

LIMIT = 100.0


def call(id: str, scope: str, made: float, ended: float | None = None, policy: str | None = "gate") -> CallTime:
    return CallTime(id, scope, policy, made, ended)


def question(id: str, scope: str, made: float, ended: float | None = None) -> CallTime:
    return call(id, scope, made, ended, APPROVAL)


def of_run(calls: Sequence[CallTime], now: float) -> float | None:
    return due(calls, "run", LIMIT, now)


def test_an_episode_is_due_so_long_after_its_first_call() -> None:
    assert of_run([], 50) == 150
    assert of_run([call("a", "run", 10, 20), call("b", "run", 20)], 50) == 110


def test_the_time_from_a_question_to_its_answer_does_not_count() -> None:
    first = call("a", "run", 10, 20)
    assert of_run([first, question("q", "run", 20, 50)], 60) == 140
    assert of_run([first, question("q", "run", 20)], 60) is None


def test_a_parent_stands_still_while_its_child_does() -> None:
    first, child = call("a", "run", 10, 20), call("child", "run", 20, policy=None)
    works = call("c", "child", 21, 30, policy=None)
    assert of_run([first, child, works], 60) == 110
    assert of_run([first, child, works, question("q", "child", 30)], 60) is None
    assert of_run([first, child, works, question("q", "child", 30, 50), call("d", "child", 50)], 60) == 130


def test_a_batch_stands_still_while_all_its_open_children_do() -> None:
    batch = [call("batch", "run", 10), call("one", "batch", 10), call("two", "batch", 10)]
    waiting = [*batch, question("q", "one", 20)]
    assert of_run([*waiting, call("w", "two", 15)], 60) == 110
    assert of_run([*waiting, question("r", "two", 40)], 60) is None
    both = [*batch, question("q", "one", 20, 90), question("r", "two", 40, 70)]
    assert of_run([*both, call("w", "two", 70)], 80) == 140
    returned = [*batch[:2], call("two", "batch", 10, 30), question("q", "one", 20, 90), call("w", "one", 90)]
    assert of_run(returned, 100) == 170


def test_questions_that_wait_at_once_count_once() -> None:
    assert of_run([question("q", "run", 10, 60), question("r", "run", 10, 40), call("c", "run", 60)], 70) == 160


def test_code_of_which_nothing_is_recorded_but_its_calls_stands_still_too() -> None:
    assert of_run([call("a", "run", 10, 20), question("q", "code", 30), call("code", "run", 0)], 60) is None
    ended = [call("a", "run", 10, 20), question("q", "code", 30, 50), call("code", "run", 55, 55)]
    assert of_run(ended, 60) == 130


def test_a_call_that_is_only_being_made_is_under_way() -> None:
    assert of_run([question("q", "run", 10), call("being made", "run", 0)], 60) == 160


def test_a_question_ends_with_what_asked_it() -> None:
    child = [call("child", "run", 10, 40), question("q", "child", 20)]
    assert of_run([*child, call("next", "run", 40)], 60) == 130


spans = st.tuples(st.integers(1, 50), st.integers(1, 50)).map(sorted)


@given(st.lists(st.tuples(st.sampled_from(["run", "one", "two"]), spans, st.booleans()), max_size=12), st.randoms())
def test_what_is_recorded_counts_and_not_in_which_order_it_is_looked_at(drawn: list[Any], random: Any) -> None:
    made = [
        call(f"c{n}", scope, *map(float, span), APPROVAL if asks else "gate")
        for n, (scope, span, asks) in enumerate(drawn)
    ]
    made += [call("one", "run", 1, 60), call("two", "run", 1, 60)]
    mixed = list(made)
    random.shuffle(mixed)
    told = of_run(made, 61)
    assert told == of_run(mixed, 61)
    assert told is not None
    assert 1 + LIMIT <= told <= 60 + LIMIT


# With a service at work


def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


GATES = ["done", pay, "call_agent", "call_agent_batch", "ask_person"]


def made(crystal: Any, inner: Any = None, medium: str = "tools", **more: Any) -> Cantrip:
    limits = [Ward(max_turns=5), Ward(max_seconds=10), Ward(max_depth=1)]
    made = circle(GATES, limits, medium, approve=["pay"], **more)
    return Cantrip(crystal, Call(), made, child_crystals=(inner,) if inner else ())


async def answer(bench: Bench, number: int, text: str = "yes") -> None:
    question = await bench.wait("ApprovalAsked", number)
    assert isinstance(question.entry, ApprovalAsked)
    given = ApprovalGiven(correlation_id=question.entry.correlation_id, answer=text, by="ada")
    await (await bench.open()).append(given, session=question.session, cause=question)


def delegates(*intents: str) -> CrystalResponse:
    if len(intents) == 1:
        return calls(("call_agent", {"intent": intents[0]}))
    return calls(("call_agent_batch", {"requests": list(intents)}))


async def test_a_parent_has_all_the_time_in_the_world_while_its_child_waits_for_a_person() -> None:
    bench = Bench()
    crystal, inner = (
        ScriptedCrystal([delegates("buy"), finishes("ok")]),
        ScriptedCrystal([calls(("pay", {"amount": 3})), finishes("bought")]),
    )
    async with bench.serve(crystal, cantrip=made(crystal, inner)):
        prompt = await bench.ask("go")
        await bench.wait("ApprovalAsked")
        bench.clock.advance(1000)
        await answer(bench, 1)
        assert (await bench.response(prompt)).text == "ok"


@pytest.mark.parametrize("medium", ["tools", "javascript"])
@pytest.mark.parametrize("cut", ["while it waits", "behind the child", "behind the answer"])
async def test_so_it_is_over_a_restart(medium: str, cut: str) -> None:
    """Nothing of what a finished child or finished code did is done again, and its waiting counts all the same."""
    bench, engine, reached, hangs = Bench(), JavaScript(), asyncio.Event(), asyncio.Event()
    if medium == "tools":
        outer, within = [delegates("buy"), finishes("ok")], [calls(("pay", {"amount": 3})), finishes("bought")]
    else:
        outer = [runs("var x = call_agent({intent: 'buy'})"), runs("done('ok')")]
        within = [runs("var y = pay(3)"), runs("done(y)")]

    class Stops:
        """A playbook that hangs once at one place."""

        def __init__(self, answers: list[CrystalResponse], at: int | None) -> None:
            self._playbook, self._at = Playbook(answers), at

        async def invoke(self, request: CrystalRequest, on_text: object = None) -> CrystalResponse:
            if self._at == sum(message.role == "assistant" for message in request.messages):
                reached.set()
                await hangs.wait()
            return await self._playbook.invoke(request)

    first = made(
        Stops(outer, 1 if cut == "behind the child" else None),
        Stops(within, 1 if cut == "behind the answer" else None),
        medium,
    )
    again = made(Stops(outer, None), Stops(within, None), medium)
    async with bench.serve(first.crystal, cantrip=first, medium=lambda _: engine):
        prompt = await bench.ask("go")
        await bench.wait("ApprovalAsked")
        if cut != "while it waits":
            bench.clock.advance(1000)
            await answer(bench, 1)
            await reached.wait()
    if cut == "while it waits":
        bench.clock.advance(1000)
    async with bench.serve(again.crystal, cantrip=again, medium=lambda _: engine):
        if cut == "while it waits":
            await answer(bench, 1)
        bench.clock.advance(5)
        assert (await bench.response(prompt)).text == "ok"
    await engine.close()


async def test_a_child_that_works_lets_its_parents_time_run_though_another_one_waits() -> None:
    bench, hung = Bench(), asyncio.Event()

    class Inner:
        async def invoke(self, request: CrystalRequest, on_text: object = None) -> CrystalResponse:
            if "wait" in (request.messages[-1].content or ""):
                return calls(("pay", {"amount": 3}))
            hung.set()
            await asyncio.Event().wait()
            raise AssertionError

    crystal = ScriptedCrystal([delegates("wait", "work")])
    cantrip = made(crystal, Inner())
    async with bench.serve(crystal, cantrip=cantrip):
        prompt = await bench.ask("go")
        await bench.wait("ApprovalAsked")
        await hung.wait()
        bench.clock.advance(11)
        response = await bench.response(prompt)
    assert (response.ending, response.ward) == ("truncated", "max_seconds")


async def test_a_batch_in_which_all_wait_has_time_and_then_what_was_left_of_it() -> None:
    bench, hung = Bench(), asyncio.Event()

    class Inner:
        async def invoke(self, request: CrystalRequest, on_text: object = None) -> CrystalResponse:
            if request.messages[-1].role == "user":
                return calls(("pay", {"amount": 3}))
            hung.set()
            await asyncio.Event().wait()
            raise AssertionError

    crystal = ScriptedCrystal([delegates("one", "two")])
    async with bench.serve(crystal, cantrip=made(crystal, Inner())):
        prompt = await bench.ask("go")
        await bench.wait("ApprovalAsked", 2)
        bench.clock.advance(1000)
        await answer(bench, 1)
        await hung.wait()
        bench.clock.advance(9)
        assert not await bench.records("AgentResponse")
        await bench.clock.until_pending()
        bench.clock.advance(1)
        response = await bench.response(prompt)
    assert (response.ending, response.ward) == ("truncated", "max_seconds")
    ended = (await bench.records("AgentResponse"))[0]
    assert ended.time - (await bench.records("CrystalCalled"))[0].time == 1010


async def test_a_prompt_that_waits_for_the_one_before_it_has_its_whole_time_yet() -> None:
    bench, hung = Bench(), asyncio.Event()

    async def hangs(_: CrystalRequest) -> CrystalResponse:
        hung.set()
        await asyncio.Event().wait()
        raise AssertionError

    crystal = ScriptedCrystal([hangs, calls(("ask_person", {"question": "Well?"})), finishes("ok")])
    async with bench.serve(crystal, cantrip=made(crystal)):
        first, second = await bench.ask("one"), await bench.ask("two")
        await hung.wait()
        bench.clock.advance(10)
        assert (await bench.response(first)).ward == "max_seconds"
        await answer(bench, 1)
        assert (await bench.response(second)).text == "ok"
