"""Rules that are about what the interface does not offer: no case can hold them, so they are looked at directly."""

from __future__ import annotations

import inspect

import pytest

import coven
from branches.agents import AGENTS
from branches.agents.loom import Loom, LoomIsAppendOnly, read_loom
from coven import Call, Cantrip, Ward, cast, circle, invoke
from coven.testing import ScriptedCrystal, says
from journals import MemoryStore


def cantrip(*answers: str) -> Cantrip:
    return Cantrip(ScriptedCrystal([says(each) for each in answers]), Call(), circle(["done"], [Ward(max_turns=3)]))


async def test_an_entity_lives_from_its_first_intent_on() -> None:
    """ENTITY-1: nobody has a thread without an intent, however it is held in the hand."""
    store = MemoryStore()
    async with invoke(cantrip("hi"), store=store) as entity:
        journal = await store.open("agents", AGENTS.registry())
        assert len(await read_loom(journal)) == 0
        await entity.ask("go")
        assert [turn.entity_id for turn in (await read_loom(journal)).turns] == [entity.id]


def test_only_casting_makes_an_entity() -> None:
    """ENTITY-1: of all public functions `cast` and `invoke` alone take a cantrip, and no entity is made bare."""
    public = {name: getattr(coven, name) for name in coven.__all__}
    functions = {name: value for name, value in public.items() if inspect.isfunction(value)}
    takes = [name for name, function in functions.items() if "cantrip" in inspect.signature(function).parameters]
    assert takes == ["cast", "invoke"]
    with pytest.raises(TypeError):
        coven.Entity()  # type: ignore[call-arg]


async def test_a_cantrip_is_a_value() -> None:
    """CANTRIP-2: it is the same after it was cast, and two that are made alike are equal."""
    made = cantrip("one", "two")
    before = repr(made.call), repr(made.circle)
    first, second = await cast(made, "go"), await cast(made, "go")
    assert (repr(made.call), repr(made.circle)) == before
    assert first.entity != second.entity
    assert Cantrip(made.crystal, made.call, made.circle) == made
    with pytest.raises(AttributeError):
        made.crystal = ScriptedCrystal([])  # type: ignore[misc]


def test_the_loom_has_no_way_to_lose_a_turn() -> None:
    """LOOM-3: deleting and setting are refused, whichever way they are tried."""
    loom = Loom()
    with pytest.raises(LoomIsAppendOnly, match="loom is append-only"):
        del loom[0]  # type: ignore[attr-defined]
    with pytest.raises(LoomIsAppendOnly, match="loom is append-only"):
        loom.turns = ()
    with pytest.raises(LoomIsAppendOnly, match="loom is append-only"):
        del loom.turns


def test_gates_are_bound_when_the_circle_is_made() -> None:
    """CIRCLE-10: what a gate depends on is given then, or the gate is refused then."""

    def look(path: str, *, root: str) -> str:
        """Look somewhere."""
        return f"{root}/{path}"

    bound = coven.gate(look, root="/data")
    assert list(bound.definition.parameters["properties"]) == ["path"]
    with pytest.raises(TypeError, match="takes no 'rot'"):
        coven.gate(look, rot="/data")
