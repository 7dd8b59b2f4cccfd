"""The recipe: what a circle is made of, which wards hold, and which cantrips are refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from branches.agents.call import Call
from branches.agents.cantrip import Cantrip, InvalidCantrip, cast_entry, configure, recall
from branches.agents.circle import Circle
from branches.agents.gates import DONE
from branches.agents.options import AgentsOptions
from branches.agents.wards import Ward, Wards, resolve
from coven.testing import ScriptedCrystal
from tests.branches.agents.bench import ECHO, GATES, options

CRYSTAL = ScriptedCrystal([])
TEN = Wards(max_turns=10)


def test_of_several_wards_the_most_restrictive_holds() -> None:
    assert resolve([Ward(max_turns=40), Ward(), Ward(max_turns=5)]) == Wards(max_turns=5)
    assert not resolve([Ward()]).truncates


def test_a_circle_has_the_named_gates_that_somebody_serves_in_the_order_of_their_names() -> None:
    cantrip = configure(CRYSTAL, options(gates=["echo", "done", "fs.missing", "echo"]), GATES)
    assert cantrip.circle.gates == (ECHO, DONE)
    assert cantrip.circle.outward == (ECHO,)


@pytest.mark.parametrize(
    ("crystal", "call", "circle", "message"),
    [
        (None, Call(), Circle((DONE,), TEN), "cantrip requires a crystal"),
        (CRYSTAL, Call(), Circle((), TEN), "circle must have a done gate"),
        (CRYSTAL, Call(require_done_tool=True), Circle((), TEN), "cantrip with require_done must have a done gate"),
        (CRYSTAL, Call(), Circle((DONE,), Wards()), "cantrip must have at least one truncation ward"),
    ],
)
def test_a_cantrip_that_could_not_work_is_refused(crystal: Any, call: Call, circle: Circle, message: str) -> None:
    with pytest.raises(InvalidCantrip, match=message):
        Cantrip(crystal, call, circle)


def test_call_and_circle_are_values() -> None:
    with pytest.raises(AttributeError):
        Call(system_prompt="a").system_prompt = "b"  # type: ignore[misc]


def test_what_the_journal_keeps_of_a_cantrip_makes_the_same_cantrip_again() -> None:
    cantrip = configure(CRYSTAL, options(system_prompt="Be brief.", tool_choice="required"), GATES)
    entry = cast_entry(cantrip, "entity")
    assert recall(cantrip, msgspec.json.decode(msgspec.json.encode(entry), type=type(entry))) == cantrip


def test_the_options_of_the_file_are_checked() -> None:
    read = msgspec.convert({"circle": {"gates": ["done"], "wards": [{"max_turns": 3}]}}, AgentsOptions)
    assert configure(CRYSTAL, read, ()).circle == Circle((DONE,), Wards(max_turns=3))
    for wrong in ({"circle": {"wards": [{"max_turns": 0}]}}, {"cristal": "auto"}, {"tool_timeout_s": 0}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(wrong, AgentsOptions)
