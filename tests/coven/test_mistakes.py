"""Mistakes in a cantrip that is written in Python: each is said at once, and nobody waits for what will not come."""

from __future__ import annotations

from typing import Any

import pytest

import coven
from branches.agents.entity import SessionUnreadable
from coven import Call, Cantrip, InvalidCantrip, InvalidCast, Ward, cast, circle, invoke
from coven.testing import ScriptedCrystal, finishes, says


class Odd:
    pass


def of_an_odd_type(thing: Odd) -> str:
    """Something."""
    return ""


def of_an_unknown_type(thing: Nowhere) -> str:  # noqa: F821
    """Something."""
    return ""


def test_what_is_no_gate_and_what_is_no_ward():
    with pytest.raises(ValueError, match="5 is no gate: give a name, a function or a definition"):
        circle(["done", 5], [Ward(max_turns=1)])  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"<object object at .* is no ward: "):
        circle(["done"], [object()])  # type: ignore[list-item]


def test_a_medium_that_there_is_none_of():
    with pytest.raises(ValueError, match="there is no medium 'javscript'; there are: tools, javascript, python"):
        circle(["done"], [Ward(max_turns=1)], "javscript")


@pytest.mark.parametrize(
    ("ward", "says"),
    [({"max_turns": "3"}, "Expected `int"), ({"max_turns": -3}, "`int` >= 1"), ({"narrow": 1}, "object")],
)
def test_a_ward_that_cannot_be(ward: dict[str, Any], says: str):
    with pytest.raises(ValueError, match=rf"Ward\(.*is no ward: .*{says}"):
        circle(["done"], [Ward(**ward)])


def test_one_ward_is_a_list_of_one():
    assert circle(["done"], Ward(max_turns=1)) == circle(["done"], [Ward(max_turns=1)])


def test_one_gate_is_no_list():
    with pytest.raises(ValueError, match=r"gates is a list: \['done'\]"):
        circle("done", [Ward(max_turns=1)])


def test_a_gate_whose_types_say_nothing_is_named():
    with pytest.raises(TypeError, match=r"gate 'of_an_odd_type': no schema can be made .*Odd"):
        circle(["done", of_an_odd_type], [Ward(max_turns=1)])
    with pytest.raises(TypeError, match="gate 'of_an_unknown_type': a type of its parameters is not known: name 'No"):
        circle(["done", of_an_unknown_type], [Ward(max_turns=1)])


@pytest.mark.parametrize("crystal", ["anthropic", object()])
def test_a_crystal_that_cannot_be_asked(crystal: Any):
    with pytest.raises(InvalidCantrip, match="cannot be asked: give an object with `async def invoke"):
        Cantrip(crystal, Call(), circle(["done"], [Ward(max_turns=1)]))


async def test_a_cast_in_a_medium_that_is_gone_ends_with_the_reason():
    from msgspec.structs import replace

    made = replace(circle(["done"], [Ward(max_turns=1)]), medium="lisp")
    with pytest.raises(SessionUnreadable, match="the medium 'lisp' is not available here"):
        await cast(Cantrip(ScriptedCrystal([finishes("x")]), Call(), made), "Go.")


async def test_a_fork_for_a_crystal_that_is_missing_ends_with_the_reason():
    crystal = ScriptedCrystal([says("one")])
    async with invoke(Cantrip(crystal, Call(), circle(["done"], [Ward(max_turns=1)]))) as entity:
        await entity.ask("Go.")
        fork = await entity.fork(0, crystal="small")
        with pytest.raises(SessionUnreadable, match="forked for the crystal 'small', which is missing"):
            await fork.ask("Go on.")


def test_what_there_is_can_be_completed():
    assert set(coven.__all__) <= set(dir(coven))


async def test_a_spell_that_nobody_casts():
    cantrip = Cantrip(ScriptedCrystal([finishes("x")]), Call(), circle(["done", "fs.read_text"], [Ward(max_turns=1)]))
    with pytest.raises(InvalidCast, match=r"nobody casts fs\.read_text: give its substrate, `substrates=\{'fs': …\}`"):
        await cast(cantrip, "Go.")
