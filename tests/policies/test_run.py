"""A run: every call written ahead, every outcome after it, and nothing done again that is recorded."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from journals import ClaimLost
from policies import (
    Action,
    ActionNotAllowed,
    Context,
    EffectCalls,
    KeyReused,
    NonDeterminismError,
    PolicyKind,
    PolicyRegistry,
    Step,
    UnknownPolicy,
    action_result,
    error_result,
)
from tests.policies.bench import SESSION, Bench, Killed


class World:
    """What effects touch: it counts, and remembers under which ids it was touched."""

    def __init__(self) -> None:
        self.touched: list[tuple[str, Any, str, int]] = []

    def times(self, policy: str) -> int:
        return sum(name == policy for name, *_ in self.touched)

    def effect(self, registry: PolicyRegistry, name: str, **how: Any) -> None:
        """An effect that adds one to `n`."""

        async def touch(action: Action, ctx: Context) -> list[Step]:
            self.touched.append((name, action.payload.get("n"), ctx.id, ctx.attempt))
            await asyncio.sleep(0)
            return [action_result(name, {"n": action.payload.get("n", 0) + 1})]

        registry.register(name, **how)(touch)


def orchestrator(registry: PolicyRegistry, policy: Any, name: str = "root") -> None:
    registry.register(name, kind=PolicyKind.ORCHESTRATOR)(policy)


async def test_a_call_is_recorded_before_it_is_made_and_its_outcome_after() -> None:
    bench, registry = Bench(), PolicyRegistry()
    seen: list[Any] = []

    async def effect(action: Action, ctx: Context) -> list[Step]:
        seen.append(await bench.history())
        return [action_result("effect", {"done": True})]

    async def root(action: Action, ctx: Context) -> list[Step]:
        return await ctx.call(Action("effect", {"x": 1}))

    registry.register("effect")(effect)
    orchestrator(registry, root)
    outcome = await bench.run(registry)
    assert seen == [[("called", ("effect", {"x": 1}, 1))]]
    assert [dict(step.payload) for step in outcome.steps] == [{"done": True}]
    assert await bench.history() == [
        ("called", ("effect", {"x": 1}, 1)),
        ("returned", ({"done": True},)),
        ("returned", ({"done": True},)),  # of the effect, and of the whole
    ]


async def test_a_finished_run_gives_its_outcome_again_and_touches_nothing() -> None:
    bench, world, registry = Bench(), World(), PolicyRegistry()
    world.effect(registry, "effect")

    async def root(action: Action, ctx: Context) -> list[Step]:
        return await ctx.call(Action("effect", {"n": 1}))

    orchestrator(registry, root)
    first = await bench.run(registry)
    history = await bench.history()
    assert await bench.run(registry) == first
    assert await bench.history() == history
    assert world.times("effect") == 1


async def chain(action: Action, ctx: Context) -> list[Step]:
    """Three calls, each of what the one before gave; the second of another sort."""
    n = 0
    for policy in ("plain", "idempotent", "plain"):
        (step,) = await ctx.call(Action(policy, {"n": n}))
        if step.is_error:
            return [step]
        n = step.payload["n"]
    return [action_result("root", {"n": n, "drawn": ctx.random(), "id": ctx.new_id(), "now": ctx.now()})]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_killed_at_any_write_it_goes_on_and_does_no_plain_effect_twice(when: str) -> None:
    undisturbed = Bench()
    world, registry = World(), PolicyRegistry()
    world.effect(registry, "plain")
    world.effect(registry, "idempotent", idempotent=True)
    orchestrator(registry, chain)
    expected = (await undisturbed.run(registry)).steps
    writes = 8  # the claim, three calls, three outcomes, the outcome of the whole
    for at in range(1, writes + 2):
        bench, world, registry = Bench(), World(), PolicyRegistry()
        world.effect(registry, "plain")
        world.effect(registry, "idempotent", idempotent=True)
        orchestrator(registry, chain)
        journal = await bench.dying(at, when)
        if at <= writes:
            with pytest.raises(Killed):
                await bench.run(registry, journal=journal)
        else:
            await bench.run(registry, journal=journal)
        steps = (await bench.run(registry)).steps
        ids = {id for name, _, id, _ in world.touched if name == "idempotent"}
        assert len(ids) <= 1
        plain = [id for name, _, id, _ in world.touched if name == "plain"]
        assert len(plain) == len(set(plain)) <= 2
        if steps[0].is_error:
            assert steps[0].payload["code"] == "in_doubt"
        else:
            assert steps == expected
        assert (await bench.run(registry)).steps == steps


async def cut_off(bench: Bench, registry: PolicyRegistry, policy: str, world: World) -> None:
    """Run until the effect has begun, then cancel."""
    begun, never = asyncio.Event(), asyncio.Event()

    async def hang(action: Action, ctx: Context) -> list[Step]:
        world.touched.append((policy, None, ctx.id, ctx.attempt))
        begun.set()
        await never.wait()
        return []

    info = registry[policy]
    hanging = PolicyRegistry()
    hanging.register(policy, idempotent=info.idempotent, repeatable=info.repeatable)(hang)
    orchestrator(hanging, registry["root"].function)
    running = asyncio.create_task(bench.run(hanging))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def call_once(action: Action, ctx: Context) -> list[Step]:
    return await ctx.call(Action("effect", {"n": 1}))


async def test_an_effect_that_was_cut_off_is_in_doubt() -> None:
    bench, world, registry = Bench(), World(), PolicyRegistry()
    world.effect(registry, "effect")
    orchestrator(registry, call_once)
    await cut_off(bench, registry, "effect", world)
    (step,) = (await bench.run(registry)).steps
    assert step.is_error
    assert step.payload["code"] == "in_doubt"
    assert "may have happened" in step.payload["message"]
    assert world.times("effect") == 1


async def test_an_idempotent_effect_that_was_cut_off_runs_again_under_the_same_id() -> None:
    bench, world, registry = Bench(), World(), PolicyRegistry()
    world.effect(registry, "effect", idempotent=True)
    orchestrator(registry, call_once)
    await cut_off(bench, registry, "effect", world)
    (step,) = (await bench.run(registry)).steps
    assert step.payload == {"n": 2}
    assert len({id for _, _, id, _ in world.touched}) == 1
    assert [entry for what, entry in await bench.history() if what == "called"] == [("effect", {"n": 1}, 1)]


async def test_a_repeatable_effect_that_was_cut_off_runs_again_as_a_recorded_attempt() -> None:
    bench, world, registry = Bench(), World(), PolicyRegistry()
    world.effect(registry, "effect", repeatable=True)
    orchestrator(registry, call_once)
    await cut_off(bench, registry, "effect", world)
    await cut_off(bench, registry, "effect", world)
    (step,) = (await bench.run(registry)).steps
    assert step.payload == {"n": 2}
    assert [attempt for *_, attempt in world.touched] == [1, 2, 3]
    called = [entry for what, entry in await bench.history() if what == "called"]
    assert called == [("effect", {"n": 1}, attempt) for attempt in (1, 2, 3)]


async def test_equal_calls_of_a_scope_are_told_apart_by_their_occurrence() -> None:
    bench, world, registry = Bench(), World(), PolicyRegistry()
    world.effect(registry, "effect")

    async def root(action: Action, ctx: Context) -> list[Step]:
        return [(await ctx.call(Action("effect", {"n": 1})))[0] for _ in range(3)]

    orchestrator(registry, root)
    with pytest.raises(Killed):
        await bench.run(registry, journal=await bench.dying(8, "before"))
    assert len({id for _, _, id, _ in world.touched}) == 3
    await bench.run(registry)
    assert world.times("effect") == 3


async def test_a_key_of_its_own_names_a_call() -> None:
    bench, world, registry = Bench(), World(), PolicyRegistry()
    world.effect(registry, "effect")
    keys = ["first", "second"]

    async def root(action: Action, ctx: Context) -> list[Step]:
        return [(await ctx.call(Action("effect", {"n": 1}), key=key))[0] for key in keys]

    orchestrator(registry, root)
    with pytest.raises(Killed):
        await bench.run(registry, journal=await bench.dying(6, "before"))
    keys.reverse()
    await bench.run(registry)
    assert world.times("effect") == 2

    keys[:] = ["same", "same"]
    with pytest.raises(KeyReused, match="'same'"):
        await Bench().run(registry)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.integers(1, 40), st.booleans())
async def test_branches_side_by_side_are_found_again_however_far_each_had_come(
    branches: list[int], at: int, after: bool
) -> None:
    bench, world, registry = Bench(), World(), PolicyRegistry()
    world.effect(registry, "effect", idempotent=True)

    async def branch(ctx: Context, length: int) -> int:
        n = 0
        for _ in range(length):
            (step,) = await ctx.call(Action("effect", {"n": n}))
            n = step.payload["n"]
        return n

    async def root(action: Action, ctx: Context) -> list[Step]:
        sums = await asyncio.gather(*(branch(ctx, length) for length in branches))
        return [action_result("root", {"sums": sums})]

    orchestrator(registry, root)
    journal = await bench.dying(at, "after" if after else "before")
    with suppress(Killed):
        await bench.run(registry, journal=journal)
    outcome = await bench.run(registry)
    assert outcome.steps[0].payload["sums"] == tuple(branches)
    called = [entry for what, entry in await bench.history() if what == "called"]
    assert len(called) == sum(branches)
    history = await bench.history()
    await bench.run(registry)
    assert await bench.history() == history


async def test_an_orchestrator_within_another_has_a_scope_and_a_ledger_of_its_own() -> None:
    bench, world, registry = Bench(), World(), PolicyRegistry()
    world.effect(registry, "effect")
    ledgers: dict[str, list[str]] = {}

    async def inner(action: Action, ctx: Context) -> list[Step]:
        steps = await ctx.call(Action("effect", {"n": 5}))
        ledgers["inner"] = [f"{step.type} by {step.actor}" for step in await ctx.get_ledger()]
        return steps

    async def root(action: Action, ctx: Context) -> list[Step]:
        allowed = frozenset({"effect"})
        first = await ctx.call(Action("inner", {}, allowed))
        second = await ctx.call(Action("inner", {}, allowed))
        ledgers["root"] = [f"{step.type} by {step.actor}" for step in await ctx.get_ledger()]
        return [*first, *second]

    orchestrator(registry, inner, "inner")
    orchestrator(registry, root)
    with pytest.raises(Killed):
        await bench.run(registry, journal=await bench.dying(10, "before"))
    await bench.run(registry)
    assert ledgers["inner"] == ["action_call by inner", "action_result by effect"]
    assert ledgers["root"] == ["action_call by root", "action_result by effect"] * 2
    assert len({id for _, _, id, _ in world.touched}) == 2
    assert world.times("effect") == 2


async def test_an_inner_orchestrator_that_was_cut_off_goes_on_where_it_stopped() -> None:
    for at in range(1, 8):
        bench, world, registry = Bench(), World(), PolicyRegistry()
        world.effect(registry, "effect", idempotent=True)

        async def inner(action: Action, ctx: Context) -> list[Step]:
            await ctx.call(Action("effect", {"n": 1}))
            return await ctx.call(Action("effect", {"n": 2}))

        async def root(action: Action, ctx: Context) -> list[Step]:
            return await ctx.call(Action("inner", {}, frozenset({"effect"})))

        orchestrator(registry, inner, "inner")
        orchestrator(registry, root)
        with pytest.raises(Killed):
            await bench.run(registry, journal=await bench.dying(at, "after"))
        assert (await bench.run(registry)).steps[0].payload == {"n": 3}
        assert len({id for _, _, id, _ in world.touched}) == 2


async def test_time_chance_and_ids_are_the_same_again() -> None:
    bench, world, registry = Bench(), World(), PolicyRegistry()
    world.effect(registry, "effect")
    drawn: list[tuple[Any, ...]] = []

    async def root(action: Action, ctx: Context) -> list[Step]:
        before = ctx.now()
        bench.clock.advance(1)
        await ctx.call(Action("effect", {}))
        drawn.append((before, ctx.now(), ctx.random(), ctx.random(), ctx.new_id(), ctx.new_id(), ctx.id))
        return []

    orchestrator(registry, root)
    with pytest.raises(Killed):
        await bench.run(registry, journal=await bench.dying(4, "before"))
    await bench.run(registry)
    first, second = drawn
    assert first == second
    assert len(set(first)) == len(first)
    assert first[1] == first[0] + 1
    assert all(0 <= number < 1 for number in first[2:4])


async def test_code_may_call_only_what_its_action_allows() -> None:
    bench, world, registry = Bench(), World(), PolicyRegistry()
    world.effect(registry, "effect")
    world.effect(registry, "other")

    async def inner(action: Action, ctx: Context) -> list[Step]:
        return await ctx.call(Action("other", {}))

    async def root(action: Action, ctx: Context) -> list[Step]:
        return await ctx.call(Action("inner", {}, frozenset({"effect"})))

    orchestrator(registry, inner, "inner")
    orchestrator(registry, root)
    with pytest.raises(ActionNotAllowed, match=r"'other' is not among the allowed actions \(effect\)"):
        await bench.run(registry)
    assert world.touched == []


async def test_an_effect_makes_no_calls() -> None:
    bench, registry = Bench(), PolicyRegistry()

    async def effect(action: Action, ctx: Context) -> list[Step]:
        assert len(await ctx.get_ledger()) == 0
        return await ctx.call(Action("effect", {}))

    registry.register("effect")(effect)
    orchestrator(registry, call_once)
    with pytest.raises(EffectCalls):
        await bench.run(registry)


async def test_an_allowed_policy_that_is_not_registered_is_said() -> None:
    registry = PolicyRegistry()

    async def root(action: Action, ctx: Context) -> list[Step]:
        return await ctx.call(Action("missing", {}, frozenset()))

    orchestrator(registry, root)

    async def outer(action: Action, ctx: Context) -> list[Step]:
        return await ctx.call(Action("root", {}, frozenset({"missing"})))

    orchestrator(registry, outer, "outer")
    with pytest.raises(UnknownPolicy, match="'missing'"):
        await Bench().run(registry, "outer")


class TestDrift:
    """The policy does something else than what its journal says."""

    @staticmethod
    async def recorded(world: World, *payloads: int) -> tuple[Bench, PolicyRegistry, list[int]]:
        """A run cut off after these calls, and the list that says what the policy calls."""
        bench, registry, plan = Bench(), PolicyRegistry(), list(payloads)
        world.effect(registry, "effect")

        async def root(action: Action, ctx: Context) -> list[Step]:
            for n in plan:
                await ctx.call(Action("effect", {"n": n}))
            return []

        orchestrator(registry, root)
        with pytest.raises(Killed):
            await bench.run(registry, journal=await bench.dying(2 + 2 * len(payloads), "before"))
        return bench, registry, plan

    async def test_another_call_than_the_recorded_one_names_both(self) -> None:
        world = World()
        bench, registry, plan = await self.recorded(world, 1, 2)
        plan[1] = 7
        with pytest.raises(NonDeterminismError, match=r"recorded is .*'n': 2.*now calls 'effect' with .*'n': 7"):
            await bench.run(registry)
        assert world.times("effect") == 2

    async def test_an_end_that_comes_too_early_names_what_is_left(self) -> None:
        bench, registry, plan = await self.recorded(World(), 1, 2)
        plan.pop()
        with pytest.raises(NonDeterminismError, match=r"'n': 2.*ends root without it"):
            await bench.run(registry)

    async def test_another_payload_under_the_same_key_names_both(self) -> None:
        bench, world, registry = Bench(), World(), PolicyRegistry()
        world.effect(registry, "effect")
        n = 1

        async def root(action: Action, ctx: Context) -> list[Step]:
            return await ctx.call(Action("effect", {"n": n}), key="only")

        orchestrator(registry, root)
        with pytest.raises(Killed):
            await bench.run(registry, journal=await bench.dying(4, "before"))
        n = 2
        with pytest.raises(NonDeterminismError, match=r"'n': 1.*'n': 2"):
            await bench.run(registry)

    async def test_more_calls_at_the_end_are_no_drift(self) -> None:
        world = World()
        bench, registry, plan = await self.recorded(world, 1, 2)
        plan.append(3)
        await bench.run(registry)
        assert world.times("effect") == 3


async def test_an_exception_of_a_policy_fails_the_run_and_the_ledger_is_safe() -> None:
    bench, world, registry = Bench(), World(), PolicyRegistry()
    world.effect(registry, "effect")
    broken = True

    async def root(action: Action, ctx: Context) -> list[Step]:
        steps = await ctx.call(Action("effect", {"n": 1}))
        if broken:
            raise LookupError("a bug")
        return steps

    orchestrator(registry, root)
    with pytest.raises(LookupError):
        await bench.run(registry)
    broken = False
    assert (await bench.run(registry)).steps[0].payload == {"n": 2}
    assert world.times("effect") == 1


async def test_a_runner_that_was_taken_over_writes_nothing_more() -> None:
    bench, registry = Bench(), PolicyRegistry()

    async def effect(action: Action, ctx: Context) -> list[Step]:
        await (await bench.open()).claim(SESSION, "somebody else")
        return [error_result("effect", "failed", "whatever")]

    registry.register("effect")(effect)
    orchestrator(registry, call_once)
    with pytest.raises(ClaimLost):
        await bench.run(registry)
    assert await bench.history() == [("called", ("effect", {"n": 1}, 1))]
