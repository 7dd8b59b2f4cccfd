"""What a policy takes: described by a model or by its signature, and checked before it runs."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

import msgspec
import pydantic
import pytest
from jsonschema import Draft202012Validator

from journals import MemoryStore
from policies import (
    Action,
    Context,
    InvalidPayload,
    Ledger,
    PolicyRegistry,
    Step,
    action_result,
    replay,
    run,
    run_registry,
    text,
)


class Place(msgspec.Struct):
    name: str


class Query(msgspec.Struct, forbid_unknown_fields=True):
    """What to look for."""

    words: Annotated[list[str], msgspec.Meta(min_length=1, description="what must be there")]
    near: Place | None = None


class Tree(msgspec.Struct):
    label: str
    branches: list[Tree] = []


class Weather(pydantic.BaseModel):
    city: str
    days: int = pydantic.Field(default=1, ge=1, le=14)


def registered() -> PolicyRegistry:
    registry = PolicyRegistry()

    @registry.effect("struct", payload=Query)
    async def struct(action: Action, ctx: Context) -> list[Step]:
        """Search."""
        return [action_result("struct", {"words": len(action.payload["words"])})]

    @registry.effect("whole")
    async def whole(query: Query, ctx: Context) -> dict[str, Any]:
        return {"words": query.words, "near": query.near.name if query.near else None, "id": len(ctx.id)}

    @registry.effect("tree", payload=Tree)
    async def tree(action: Action, ctx: Context) -> list[Step]:
        return []

    @registry.effect("pydantic")
    async def weather(asked: Weather) -> str:
        return f"{asked.city} {asked.days}"

    @registry.effect()
    async def signature(city: str, days: Annotated[int, msgspec.Meta(le=14)] = 1) -> list[Step]:
        """The weather.

        For some days.
        """
        return [text("signature", f"{city} {days}")]

    @registry.effect("any json")
    async def any_json(value: Any) -> Any:
        return value

    return registry


@pytest.mark.parametrize("name", registered().names)
def test_every_schema_is_one_of_an_object(name: str) -> None:
    schema = registered()[name].input_schema
    Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    json.dumps(schema)


def test_a_model_may_hold_others_of_its_own_kind() -> None:
    validator = Draft202012Validator(registered()["tree"].input_schema)
    assert validator.is_valid({"label": "a", "branches": [{"label": "b"}]})
    assert not validator.is_valid({"label": "a", "branches": [{"no": "label"}]})


def test_a_signature_becomes_a_schema() -> None:
    info = registered()["signature"]
    assert info.description == "The weather.\n\nFor some days."
    assert info.input_schema == {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "maximum": 14, "default": 1}},
        "required": ["city"],
        "additionalProperties": False,
    }


async def outcome(policy: str, payload: dict[str, Any]) -> Step:
    registry = registered()

    @registry.orchestrator("root")
    async def root(action: Action, ctx: Context) -> list[Step]:
        return await ctx.call(Action(policy, payload))

    return (await run("root", {}, registry))[-1]


@pytest.mark.parametrize(
    ("policy", "payload", "given"),
    [
        ("struct", {"words": ["a", "b"]}, {"words": 2}),
        ("whole", {"words": ["a"], "near": {"name": "sea"}}, {"words": ("a",), "near": "sea", "id": 24}),
        ("pydantic", {"city": "Oslo"}, {"result": "Oslo 1"}),
        ("signature", {"city": "Oslo", "days": 3}, {"text": "Oslo 3"}),
        ("any json", {"value": [1, None]}, {"result": (1, None)}),
        ("any json", {"value": {"a": 1}}, {"a": 1}),
        ("any json", {"value": None}, {"result": None}),
    ],
)
async def test_a_payload_that_fits_reaches_the_function(policy: str, payload: dict[str, Any], given: Any) -> None:
    assert (await outcome(policy, payload)).payload == given


@pytest.mark.parametrize(
    ("policy", "payload", "said"),
    [
        ("struct", {"words": []}, r"length >= 1 - at `\$\.words`"),
        ("struct", {}, "missing required field `words`"),
        ("struct", {"words": ["a"], "far": 1}, "unknown field `far`"),
        ("whole", {"words": ["a"], "near": {"name": 1}}, r"`\$\.near\.name`"),
        ("pydantic", {"city": "Oslo", "days": 15}, "days .*less than or equal to 14"),
        ("signature", {"city": 1}, r"Expected `str`, got `int` - at `\$\.city`"),
        ("signature", {"town": "Oslo"}, "unknown field|missing required"),
    ],
)
async def test_a_payload_that_does_not_fit_comes_back_as_an_error(
    policy: str, payload: dict[str, Any], said: str
) -> None:
    step = await outcome(policy, payload)
    assert step.is_error
    assert step.payload["code"] == "invalid_payload"
    assert re.search(said, step.payload["message"]), step.payload["message"]


async def test_a_call_that_was_refused_stands_in_the_journal_with_its_refusal() -> None:
    registry = registered()

    @registry.orchestrator("root")
    async def root(action: Action, ctx: Context) -> list[Step]:
        return await ctx.call(Action("signature", {"town": "Oslo"}))

    journal = await MemoryStore().open("runs", run_registry())
    ledger: Ledger = await run("root", {}, registry, journal=journal, run_id="r")
    kinds = [record.kind async for record in journal.read()]
    assert kinds == ["RunStarted", "PolicyCalled", "PolicyReturned", "PolicyReturned"]
    assert await run("root", {}, registry, journal=journal, run_id="r") == ledger


async def test_an_orchestrator_that_was_refused_is_not_run_by_a_replay_either() -> None:
    registry = PolicyRegistry()

    @registry.orchestrator("typed")
    async def typed(n: int) -> None:
        raise AssertionError("nobody may get here")

    @registry.orchestrator("root")
    async def root(action: Action, ctx: Context) -> list[Step]:
        return await ctx.call(Action("typed", {"n": "one"}))

    journal = await MemoryStore().open("runs", run_registry())
    ledger = await run("root", {}, registry, journal=journal, run_id="r")
    assert ledger[-1].payload["code"] == "invalid_payload"
    assert await replay("r", registry, journal=journal) == ledger


async def test_a_runner_that_gives_a_root_the_wrong_payload_is_told_at_once() -> None:
    with pytest.raises(InvalidPayload, match="`city`"):
        await run("signature", {}, registered())


def test_what_is_no_model_or_no_signature_is_refused() -> None:
    registry = PolicyRegistry()
    with pytest.raises(TypeError, match="no model"):
        registry.effect("x", payload=3)(registered()["struct"].function)  # type: ignore[type-var]
    with pytest.raises(TypeError, match="signature says it"):

        @registry.effect("y", payload=Query)
        async def both(words: list[str]) -> None: ...

    assert registry.names == ()


@pytest.mark.parametrize(
    "given",
    [object(), {"a": {1, 2}}, {1: 2}, float("nan"), "broken \ud800"],
    ids=["object", "set", "key", "nan", "surrogate"],
)
async def test_what_cannot_be_recorded_becomes_an_error_that_says_so(given: Any) -> None:
    registry = PolicyRegistry()

    @registry.effect("odd")
    async def odd() -> Any:
        return given

    journal = await MemoryStore().open("runs", run_registry())
    ledger = await run("odd", {}, registry, journal=journal, run_id="r")
    assert ledger[-1].is_error
    assert ledger[-1].payload["code"] == "bad_result"
    assert await run("odd", {}, registry, journal=journal, run_id="r") == ledger
