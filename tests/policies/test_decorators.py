"""Decorators: a loop around a policy, and the calls that it decides on, made for it."""

from __future__ import annotations

from typing import Any

import pytest

from journals import MemoryStore
from policies import (
    Action,
    ActionNotAllowed,
    Context,
    NonDeterminismError,
    PolicyRegistry,
    Step,
    action_call,
    action_result,
    invoke_action,
    loop_wrapper,
    read_ledger,
    run,
    run_registry,
    text,
)

DECORATORS = (loop_wrapper(max_turns=5), invoke_action())


def outline(steps: Any) -> list[str]:
    return [f"{step.actor} {step.type}" for step in steps]


class Talk:
    """A model that says what a script has, and remembers which ledger it was shown; and a tool."""

    def __init__(self, *script: list[Step]) -> None:
        self.shown: list[list[str]] = []
        self.used: list[Any] = []
        self.registry = PolicyRegistry()
        self._script = list(script)

        @self.registry.effect("model")
        async def model(action: Action, ctx: Context) -> list[Step]:
            self.shown.append(outline(await ctx.get_ledger()))
            return self._script.pop(0)

        @self.registry.effect("tool")
        async def tool(action: Action, ctx: Context) -> list[Step]:
            self.used.append(action.payload.get("q"))
            return [action_result("tool", {"a": action.payload.get("q")})]

        @self.registry.effect("other")
        async def other(action: Action, ctx: Context) -> list[Step]:
            raise AssertionError("nobody may call this")

        @self.registry.orchestrator("agent")
        async def agent(action: Action, ctx: Context) -> list[Step]:
            asked = Action("model", {"m": 1}, frozenset({"tool"}))
            return await ctx.call(asked, DECORATORS, ledger=[text("user", "what is q?")])


def asks(q: Any, policy: str = "tool") -> Step:
    return action_call("model", Action(policy, {"q": q}))


async def test_a_loop_goes_on_until_a_turn_has_no_calls() -> None:
    talk = Talk([text("model", "let me see"), asks(1), asks(2)], [asks(3)], [text("model", "it is 3")])
    ledger = await run("agent", {}, talk.registry)
    assert talk.used == [1, 2, 3]
    assert talk.shown == [
        ["user text"],
        [
            "user text",
            "model text",
            "model action_call",
            "tool action_result",
            "model action_call",
            "tool action_result",
        ],
        [
            "user text",
            "model text",
            "model action_call",
            "tool action_result",
            "model action_call",
            "tool action_result",
            "model action_call",
            "tool action_result",
        ],
    ]
    assert ledger[-1].payload == {"text": "it is 3"}


async def test_a_loop_ends_with_its_last_turn() -> None:
    talk = Talk(*([asks(n)] for n in range(10)))
    ledger = await run("agent", {}, talk.registry)
    assert talk.used == [0, 1, 2, 3, 4]
    assert outline(ledger[-2:]) == ["model action_call", "tool action_result"]
    with pytest.raises(ValueError, match="at least one turn"):
        loop_wrapper(max_turns=0)


async def test_a_loop_looks_only_at_the_steps_of_its_own_turn() -> None:
    """That the ledger it began with holds calls is no reason to go on."""
    talk = Talk([text("model", "done")])

    @talk.registry.orchestrator("begins with calls")
    async def agent(action: Action, ctx: Context) -> list[Step]:
        asked = Action("model", {}, frozenset({"tool"}))
        return await ctx.call(asked, DECORATORS, ledger=[asks(1), action_result("tool", {})])

    await run("begins with calls", {}, talk.registry)
    assert talk.used == []
    assert talk.shown == [["model action_call", "tool action_result"]]


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (asks(1, "other"), "not_allowed"),
        (asks(1, "nonsense"), "not_allowed"),
        (Step("", "model", "action_call", {"payload": {}}), "bad_call"),
        (Step("", "model", "action_call", {"policy": "tool", "payload": [1]}), "bad_call"),
    ],
    ids=["outside the menu", "unknown", "no policy", "no payload"],
)
async def test_a_model_that_asks_for_more_reads_why_not(call: Step, code: str) -> None:
    talk = Talk([call], [text("model", "a pity")])
    ledger = await run("agent", {}, talk.registry)
    assert {step.payload["code"] for step in ledger if step.is_error} == {code}
    assert talk.used == []
    assert len(talk.shown) == 2


async def test_code_that_asks_for_more_raises() -> None:
    talk = Talk()

    @talk.registry.orchestrator("calls it")
    async def calls_it(action: Action, ctx: Context) -> list[Step]:
        return await ctx.call(Action("other"))

    @talk.registry.orchestrator("hands it on")
    async def hands_it_on(action: Action, ctx: Context) -> list[Step]:
        return await ctx.call(Action("model", {}, frozenset({"tool", "other"})), DECORATORS)

    for policy in ("calls it", "hands it on"):
        with pytest.raises(ActionNotAllowed, match=r"'other' is not among the allowed actions \(.*tool"):
            await run(policy, {}, talk.registry, actions=["model", "tool"])
    assert talk.shown == []


async def test_a_policy_that_a_model_calls_may_call_what_it_was_registered_with() -> None:
    talk = Talk([asks("x", "helper")], [text("model", "thanks")])

    @talk.registry.orchestrator("helper", actions=["tool", "other"])
    async def helper(action: Action, ctx: Context) -> list[Step]:
        assert action.actions == {"tool"}, "the ceiling subtracts"
        return await ctx.call(Action("tool", action.payload))

    @talk.registry.orchestrator("root")
    async def root(action: Action, ctx: Context) -> list[Step]:
        return await ctx.call(Action("model", {}, frozenset({"helper"})), DECORATORS)

    await run("root", {}, talk.registry, actions=["model", "helper", "tool"])
    assert talk.used == ["x"]


async def test_the_first_decorator_is_the_outermost() -> None:
    talk, order = Talk([text("model", "hi")]), list[str]()

    def around(name: str) -> Any:
        def decorator(policy: Any) -> Any:
            async def wrapped(action: Action, ctx: Context) -> list[Step]:
                order.append(f"into {name}")
                steps = await policy(action, ctx)
                order.append(f"out of {name}")
                return [*steps, text(name, "was here")]

            return wrapped

        decorator.__name__ = name
        return decorator

    @talk.registry.orchestrator("root")
    async def root(action: Action, ctx: Context) -> list[Step]:
        return await ctx.call(Action("model"), [around("outer"), around("inner")])

    ledger = await run("root", {}, talk.registry)
    assert order == ["into outer", "into inner", "out of inner", "out of outer"]
    assert outline(ledger[-3:]) == ["model text", "inner text", "outer text"]


async def test_they_decorate_functions_too() -> None:
    talk, turns = Talk(), list[int]()

    @talk.registry.orchestrator("agent of its own")
    @loop_wrapper(max_turns=4)
    @invoke_action()
    async def agent(action: Action, ctx: Context) -> list[Step]:
        """Asks twice."""
        ledger = await ctx.get_ledger()
        turns.append(len(ledger))
        if len(turns) == 3:
            return [text("me", "enough")]
        return [action_call("me", Action("tool", {"q": len(ledger)}))]

    assert talk.registry["agent of its own"].description == "Asks twice."
    ledger = await run("agent of its own", {}, talk.registry)
    assert turns == [0, 2, 4]
    assert talk.used == [0, 2]
    assert ledger[-1].payload == {"text": "enough"}


async def test_a_decorated_call_is_a_scope_around_the_bare_effect() -> None:
    talk = Talk([asks(1)], [text("model", "1")])
    journal = await MemoryStore().open("runs", run_registry())
    await run("agent", {}, talk.registry, journal=journal, run_id="r")
    called = [record.entry async for record in journal.read(kinds=["PolicyCalled"])]
    scope, first, tool, second = called
    assert [entry.policy for entry in called] == ["model", "model", "tool", "model"]  # type: ignore[attr-defined]
    assert scope.decorators == ("loop_wrapper", "invoke_action")  # type: ignore[attr-defined]
    assert {entry.scope for entry in (first, tool, second)} == {scope.call}  # type: ignore[attr-defined]
    assert first.seed != second.seed  # type: ignore[attr-defined]
    assert len(await read_ledger("r", journal=journal)) > 0


async def test_another_ledger_for_the_same_call_is_drift() -> None:
    """The question is the same, but what the model is shown is not: its answer does not hold for that."""
    talk, shown = Talk([text("model", "1")]), ["first"]

    @talk.registry.orchestrator("root")
    async def root(action: Action, ctx: Context) -> list[Step]:
        await ctx.call(Action("model"), ledger=[text("user", shown[0])])
        raise LookupError("a bug")

    journal = await MemoryStore().open("runs", run_registry())
    for error in (LookupError, LookupError):
        with pytest.raises(error):
            await run("root", {}, talk.registry, journal=journal, run_id="r")
    shown[0] = "second"
    with pytest.raises(NonDeterminismError, match="over the ledger"):
        await run("root", {}, talk.registry, journal=journal, run_id="r")
