"""Runs in a journal of their own: begun, gone on with, taken over and looked at, over both stores."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from journals import ClaimLost, Journal, MemoryStore, Store
from policies import (
    Action,
    Context,
    InvalidPayload,
    Ledger,
    NonDeterminismError,
    PolicyRegistry,
    RunConflict,
    RunUnreadable,
    Step,
    UnknownPolicy,
    UnknownRun,
    action_result,
    open_runs,
    read_ledger,
    replay,
    resume,
    run,
    run_registry,
    text,
)


class Counting:
    """A registry whose effect counts how often it runs, and can be held up."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.begun, self.free = asyncio.Event(), asyncio.Event()
        self.free.set()
        self.registry = PolicyRegistry()

        @self.registry.effect("count")
        async def count(action: Action, ctx: Context) -> list[Step]:
            self.begun.set()
            await self.free.wait()
            self.done.append(action.payload["n"])
            return [action_result("count", {"n": len(self.done)})]

        @self.registry.orchestrator("twice")
        async def twice(action: Action, ctx: Context) -> list[Step]:
            for n in range(action.payload.get("times", 2)):
                await ctx.call(Action("count", {"n": n}))
            return [text("twice", f"done after {len(await ctx.get_ledger())} steps")]


async def opened(store: Store) -> Journal:
    return await store.open("runs", run_registry())


async def test_a_run_gives_the_ledger_of_the_whole_run(store: Store) -> None:
    counting = Counting()
    ledger = await run("twice", {}, counting.registry, journal=await opened(store), run_id="r")
    assert [(step.actor, step.type) for step in ledger] == [
        ("runner", "action_call"),
        ("twice", "action_call"),
        ("count", "action_result"),
        ("twice", "action_call"),
        ("count", "action_result"),
        ("twice", "text"),
    ]
    assert ledger[-1].payload == {"text": "done after 4 steps"}
    assert len({step.id for step in ledger}) == len(ledger)


async def test_a_finished_run_runs_nothing_again(store: Store) -> None:
    counting, journal = Counting(), await opened(store)
    first = await run("twice", {}, counting.registry, journal=journal, run_id="r")
    end = await journal.end()
    assert await run("twice", {}, counting.registry, journal=await opened(store), run_id="r") == first
    assert await resume("r", counting.registry, journal=journal) == first
    assert await read_ledger("r", journal=journal) == first
    assert await replay("r", counting.registry, journal=journal) == first
    assert counting.done == [0, 1]
    assert await journal.end() == end


async def test_a_run_that_was_cut_off_goes_on(store: Store) -> None:
    counting = Counting()
    counting.free.clear()
    running = asyncio.create_task(
        run("twice", {}, counting.registry, journal=await opened(store), run_id="r", owner="first")
    )
    await counting.begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert counting.done == []
    assert await open_runs(journal=await opened(store)) == ["r"]
    counting.free.set()
    ledger = await resume("r", counting.registry, journal=await opened(store))
    assert [step.payload.get("code") for step in ledger if step.actor == "count"] == ["in_doubt", None]
    assert counting.done == [1]
    assert await open_runs(journal=await opened(store)) == []


async def test_of_two_runners_of_one_run_the_older_one_is_fenced_off(store: Store) -> None:
    older, newer = Counting(), Counting()
    older.free.clear()
    first = asyncio.create_task(run("twice", {}, older.registry, journal=await opened(store), run_id="r"))
    await older.begun.wait()
    ledger = await run("twice", {}, newer.registry, journal=await opened(store), run_id="r")
    older.free.set()
    with pytest.raises(ClaimLost):
        await first
    assert (older.done, newer.done) == ([0], [1])  # the older one's was under way, and is in doubt
    assert await read_ledger("r", journal=await opened(store)) == ledger


async def test_a_run_id_names_one_run_for_ever(store: Store) -> None:
    counting, journal = Counting(), await opened(store)
    await run("twice", {"times": 1}, counting.registry, [text("user", "hi")], journal=journal, run_id="r")
    with pytest.raises(RunConflict, match="another payload"):
        await run("twice", {"times": 2}, counting.registry, [text("user", "hi")], journal=journal, run_id="r")
    with pytest.raises(RunConflict, match="another ledger"):
        await run("twice", {"times": 1}, counting.registry, journal=journal, run_id="r")
    with pytest.raises(RunConflict, match="another policy"):
        await run("count", {"n": 1}, counting.registry, journal=journal, run_id="r")
    counting.registry.effect("other")(counting.registry["count"].function)  # type: ignore[type-var]
    await run("twice", {"times": 1}, counting.registry, [text("user", "hi")], journal=journal, run_id="r")
    assert counting.done == [0]


async def test_what_was_never_begun_is_unknown(store: Store) -> None:
    registry, journal = Counting().registry, await opened(store)
    for asking in (
        resume("r", registry, journal=journal),
        read_ledger("r", journal=journal),
        replay("r", registry, journal=journal),
    ):
        with pytest.raises(UnknownRun, match="'r'"):
            await asking


async def test_a_run_with_an_entry_of_tomorrow_is_left_alone() -> None:
    from journals import EntryRegistry

    store, counting = MemoryStore(), Counting()
    journal = await opened(store)
    await run("twice", {}, counting.registry, journal=journal, run_id="r")
    older = EntryRegistry(run_registry().type_of(kind) for kind in ("RunStarted", "PolicyCalled"))
    with pytest.raises(RunUnreadable, match="PolicyReturned"):
        await resume("r", counting.registry, journal=await store.open("runs", older))


async def test_an_effect_as_root_is_never_run_twice_silently(store: Store) -> None:
    counting = Counting()
    counting.free.clear()
    running = asyncio.create_task(run("count", {"n": 7}, counting.registry, journal=await opened(store), run_id="r"))
    await counting.begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    counting.free.set()
    ledger = await resume("r", counting.registry, journal=await opened(store))
    assert ledger[-1].payload["code"] == "in_doubt"
    assert counting.done == []


async def test_code_that_changed_is_found_by_a_replay() -> None:
    counting, journal = Counting(), await opened(MemoryStore())
    await run("twice", {}, counting.registry, journal=journal, run_id="r")

    def other(times: int, said: str) -> PolicyRegistry:
        registry = PolicyRegistry()
        registry.effect("count")(counting.registry["count"].function)  # type: ignore[type-var]

        @registry.orchestrator("twice")
        async def twice(action: Action, ctx: Context) -> list[Step]:
            for n in range(times):
                await ctx.call(Action("count", {"n": n}))
            return [text("twice", said)]

        return registry

    await replay("r", other(2, "done after 4 steps"), journal=journal)
    with pytest.raises(NonDeterminismError, match=r"ends it with.*something else"):
        await replay("r", other(2, "something else"), journal=journal)
    with pytest.raises(NonDeterminismError, match=r"recorded is a call of 'count' with .*'n': 1.*without it"):
        await replay("r", other(1, "done after 4 steps"), journal=journal)
    with pytest.raises(NonDeterminismError, match=r"recorded is nothing more, but .* calls 'count' with .*'n': 2"):
        await replay("r", other(3, "done after 4 steps"), journal=journal)
    assert counting.done == [0, 1]


class TestWithoutAJournal:
    """The ledger itself is what survives."""

    async def test_the_same_ledger_is_not_run_again(self) -> None:
        counting = Counting()
        ledger = await run("twice", {}, counting.registry)
        assert await run("twice", {}, counting.registry, ledger) == ledger
        assert counting.done == [0, 1]

    async def test_the_beginning_of_a_ledger_is_gone_on_with(self) -> None:
        whole = await run("twice", {}, Counting().registry, [text("user", "hi")])
        for length in range(len(whole) + 1):
            counting = Counting()
            ledger = await run("twice", {}, counting.registry, whole[:length] if length else [text("user", "hi")])
            called = sum(step.actor == "twice" and step.type == "action_call" for step in whole[:length])
            returned = sum(step.actor == "count" for step in whole[:length])
            assert len(counting.done) == 2 - called
            assert len(ledger) == len(whole)
            doubts = [step for step in ledger if step.payload.get("code") == "in_doubt"]
            assert len(doubts) == called - returned

    async def test_a_ledger_survives_as_json(self) -> None:
        counting = Counting()
        ledger = await run("twice", {"times": 3}, counting.registry)
        kept = msgspec.json.encode(ledger.steps)
        counting.done.clear()
        assert await run("twice", {"times": 3}, counting.registry, msgspec.json.decode(kept, type=list[Step])) == ledger
        assert counting.done == []

    async def test_another_ledger_is_what_the_policy_begins_with(self) -> None:
        registry, seen = PolicyRegistry(), list[Ledger]()

        @registry.orchestrator("talk")
        async def talk(action: Action, ctx: Context) -> list[Step]:
            seen.append(await ctx.get_ledger())
            return [text("assistant", "hello")]

        said = text("user", "hi", id="u1")
        ledger = await run("talk", {}, registry, [said])
        assert seen[0] == Ledger([said])
        assert ledger[0] == said
        further = await run("talk", {"again": True}, registry, ledger)
        assert seen[1] == ledger
        assert further[: len(ledger)] == ledger.steps

    async def test_what_cannot_be_run_is_said(self) -> None:
        registry = Counting().registry
        with pytest.raises(UnknownPolicy):
            await run("missing", {}, registry)
        with pytest.raises(UnknownPolicy):
            await run("twice", {}, registry, actions=["missing"])
        with pytest.raises(InvalidPayload):
            await run("twice", {"n": object()}, registry)
        with pytest.raises(ValueError, match="run_id"):
            await run("twice", {}, registry, journal=await opened(MemoryStore()))


async def test_cancelling_is_never_a_result() -> None:
    """An effect that takes its cancellation for an answer is still cut off."""
    registry, journal = PolicyRegistry(), await opened(MemoryStore())
    begun = asyncio.Event()

    @registry.effect("stubborn")
    async def stubborn(action: Action, ctx: Context) -> list[Step]:
        begun.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return [action_result("stubborn", {"cancelled": True})]

    running = asyncio.create_task(run("stubborn", {}, registry, journal=journal, run_id="r"))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [record.kind async for record in journal.read()] == ["RunStarted", "PolicyCalled"]


async def test_a_bug_fails_the_run_and_ends_what_is_under_way_beside_it() -> None:
    registry, journal = PolicyRegistry(), await opened(MemoryStore())
    begun, ended, broken = asyncio.Event(), asyncio.Event(), True

    @registry.effect("slow", idempotent=True)
    async def slow(action: Action, ctx: Context) -> list[Step]:
        if not broken:
            return [action_result("slow", {})]
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    @registry.effect("bad", idempotent=True)
    async def bad(action: Action, ctx: Context) -> list[Step]:
        if broken:
            await begun.wait()
            raise LookupError("a bug")
        return [action_result("bad", {})]

    @registry.orchestrator("both")
    async def both(action: Action, ctx: Context) -> list[Step]:
        outcomes = await asyncio.gather(ctx.call(Action("slow")), ctx.call(Action("bad")))
        return [step for steps in outcomes for step in steps]

    with pytest.raises(LookupError):
        await run("both", {}, registry, journal=journal, run_id="r")
    assert ended.is_set()
    broken = False
    ledger = await resume("r", registry, journal=journal)
    assert [step.actor for step in ledger[-2:]] == ["slow", "bad"]


async def test_what_a_policy_leaves_behind_is_ended_with_it() -> None:
    registry, journal = PolicyRegistry(), await opened(MemoryStore())
    cancelled = asyncio.Event()

    @registry.effect("slow")
    async def slow(action: Action, ctx: Context) -> list[Step]:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError

    @registry.effect("fast")
    async def fast(action: Action, ctx: Context) -> list[Step]:
        return [action_result("fast", {})]

    @registry.orchestrator("race")
    async def race(action: Action, ctx: Context) -> list[Step]:
        calls = [asyncio.create_task(ctx.call(Action(policy))) for policy in ("slow", "fast")]
        done, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result()

    ledger = await run("race", {}, registry, journal=journal, run_id="r")
    assert cancelled.is_set()
    assert ledger[-1].actor == "fast"
    assert await replay("r", registry, journal=journal) == ledger


async def test_scopes_side_by_side_do_not_wait_for_each_other() -> None:
    """One goes on with something new while another has not come to what is recorded of it."""
    registry, journal = PolicyRegistry(), await opened(MemoryStore())
    first_life, may_go_on = True, asyncio.Event()

    @registry.effect("say", idempotent=True)
    async def say(action: Action, ctx: Context) -> list[Step]:
        if action.payload["what"] == "go on":
            if first_life:
                raise LookupError("a bug")
            may_go_on.set()
        return [action_result("say", {})]

    @registry.orchestrator("slow", actions=["say"])
    async def slow(action: Action, ctx: Context) -> list[Step]:
        if not first_life:
            await may_go_on.wait()  # as one does whose code runs in another process
        await ctx.call(Action("say", {"what": "slowly"}))
        if first_life:
            await asyncio.Event().wait()
        return [action_result("slow", {})]

    @registry.orchestrator("other", actions=["say"])
    async def other(action: Action, ctx: Context) -> list[Step]:
        await ctx.call(Action("say", {"what": "hello"}))
        await ctx.sleep(0)
        await ctx.call(Action("say", {"what": "go on"}))
        return [action_result("other", {})]

    @registry.orchestrator("root")
    async def root(action: Action, ctx: Context) -> list[Step]:
        await asyncio.gather(ctx.call(Action("slow")), ctx.call(Action("other")))
        return [action_result("root", {"done": True})]

    with pytest.raises(LookupError):
        await run("root", {}, registry, journal=journal, run_id="r")
    kinds = [record.kind async for record in journal.read()]
    assert kinds.count("PolicyReturned") == 2
    first_life = False
    ledger = await resume("r", registry, journal=journal)
    assert ledger[-1].payload == {"done": True}
