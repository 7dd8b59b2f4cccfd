"""Effects that are answered from outside: the answer, the deadline, and which of the two came first."""

from __future__ import annotations

import asyncio

import pytest

from policies import Action, Context, Outcome, PolicyKind, PolicyRegistry, Step
from tests.policies.bench import Bench


def waiting(timeout_s: float | None = 60) -> PolicyRegistry:
    """A policy that asks somebody outside."""
    registry = PolicyRegistry()
    registry.register_awaited("outside", timeout_s=timeout_s)

    async def root(action: Action, ctx: Context) -> list[Step]:
        return await ctx.call(Action("outside", {"q": 1}))

    registry.register("root", kind=PolicyKind.ORCHESTRATOR)(root)
    return registry


async def begin(bench: Bench, registry: PolicyRegistry) -> tuple[asyncio.Task[Outcome], str]:
    running = asyncio.create_task(bench.run(registry))
    call = await bench.called("outside")
    return running, call.entry.call  # type: ignore[attr-defined]


async def test_the_answer_is_the_outcome() -> None:
    bench = Bench()
    running, call = await begin(bench, waiting())
    await bench.answer(call, {"a": 1})
    outcome = await running
    assert outcome.steps[0].payload == {"a": 1}
    assert bench.clock.pending == 0


async def test_an_answer_to_no_call_is_ignored() -> None:
    bench = Bench()
    running, call = await begin(bench, waiting())
    await bench.answer("nobody's call", {"a": 0})
    await bench.answer(call, {"a": 1})
    assert (await running).steps[0].payload == {"a": 1}


async def test_without_an_answer_in_time_a_fault_is_recorded() -> None:
    bench = Bench()
    running, _ = await begin(bench, waiting(60))
    await bench.clock.until_pending()
    bench.clock.advance(59)
    await asyncio.sleep(0)
    assert not running.done()
    bench.clock.advance(1)
    (step,) = (await running).steps
    assert step.is_error
    assert step.payload["code"] == "timeout"
    assert "60 s" in step.payload["message"]


async def test_an_answer_after_the_fault_is_recorded_and_ignored() -> None:
    bench = Bench()
    running, call = await begin(bench, waiting(60))
    await bench.clock.until_pending()
    bench.clock.advance(60)
    first = await running
    await bench.answer(call, {"a": 1})
    assert (await bench.run(waiting(60))).steps == first.steps
    assert ("returned", ({"a": 1},)) in await bench.history()


async def test_an_answer_that_was_recorded_before_the_fault_wins() -> None:
    """The deadline passes when the answer stands in the journal already, but the tail has not brought it yet."""
    bench = Bench()
    running, call = await begin(bench, waiting(60))
    await bench.clock.until_pending()
    bench.clock.advance(60)
    await bench.answer(call, {"a": 1})
    history = await bench.history()
    outcome = await running
    assert history.index(("returned", ({"a": 1},))) == 1
    assert outcome.steps[0].payload == {"a": 1}


async def test_the_deadline_counts_from_the_recorded_call_also_after_a_restart() -> None:
    bench = Bench()
    running, _ = await begin(bench, waiting(60))
    bench.clock.advance(40)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    again = asyncio.create_task(bench.run(waiting(60)))
    await bench.clock.until_pending()
    bench.clock.advance(20)
    assert (await again).steps[0].payload["code"] == "timeout"
    assert [what for what, _ in await bench.history()] == ["called", "returned", "returned"]


async def test_an_answer_that_came_while_nobody_ran_is_found() -> None:
    bench = Bench()
    running, call = await begin(bench, waiting(60))
    running.cancel()
    await bench.answer(call, {"a": 1})
    bench.clock.advance(1000)
    assert (await bench.run(waiting(60))).steps[0].payload == {"a": 1}


async def test_without_a_deadline_it_waits_as_long_as_it_takes() -> None:
    bench = Bench()
    running, call = await begin(bench, waiting(None))
    bench.clock.advance(10_000_000)
    assert bench.clock.pending == 0
    await bench.answer(call, {"a": 1})
    assert (await running).steps[0].payload == {"a": 1}
