"""Fitting: what alone is too long for a crystal is shown by both its ends, and no conversation gets stuck on it."""

from __future__ import annotations

import pytest

from branches.agents.call import Call
from branches.agents.cantrip import Cantrip
from branches.agents.circle import circle
from branches.agents.crystal import CrystalError, CrystalRequest, CrystalResponse, Message, ToolCall, Usage
from branches.agents.fitting import SHORTEST, View, fits, fitted
from branches.agents.folding import Folded, Folding, TurnMessages, estimate_tokens
from branches.agents.loom import read_loom
from branches.agents.options import AgentsOptions
from branches.agents.wards import Ward
from coven.testing import ScriptedCrystal, calls, finishes, says
from journals import Store
from tests.branches.agents.bench import Bench, options

LIMIT = 4_000
LONG = "<" + "x" * 100_000 + ">"


class SmallCrystal(ScriptedCrystal):
    """It refuses what is longer than it takes, as providers do."""

    context_limit = LIMIT

    async def invoke(self, request: CrystalRequest, on_text: object = None) -> CrystalResponse:
        if estimate_tokens(request.messages) > LIMIT:
            raise CrystalError("bad_request", "prompt is too long", status=400)
        return await super().invoke(request)


def look() -> str:
    """Give more than the crystal takes."""
    return LONG


def contents(crystal: ScriptedCrystal) -> list[list[tuple[str, str | None]]]:
    return [[(message.role, message.content) for message in request.messages] for request in crystal.requests]


@pytest.mark.parametrize("folding", [None, Folding(keep_turns=2), Folding(strategy="summary")])
async def test_an_intent_that_is_too_long_is_answered_and_the_conversation_goes_on(
    store: Store, folding: Folding | None
) -> None:
    bench, script = Bench(store), [says("one"), says("two"), says("three")]
    chosen = AgentsOptions(call=options().call, circle=options().circle, folding=folding)
    crystal = SmallCrystal(script)
    async with bench.serve(crystal, chosen):
        assert (await bench.talk(LONG)).text == "one"
        assert (await bench.talk("go on")).text == "two"
        assert (await bench.talk(LONG + "again")).text == "three"
    restarted = SmallCrystal([says("four")])
    async with bench.serve(restarted, chosen):
        assert (await bench.talk("and now?")).text == "four"
    (first, *_), shown = contents(crystal), contents(restarted)[0]
    intent = first[0][1] or ""
    assert (intent[0], intent[-1], "characters left out" in intent) == ("<", ">", True)
    assert shown[: len(contents(crystal)[-1])] == contents(crystal)[-1], "after a restart it is shown the same"
    assert (await read_loom(await bench.open())).turns[0].intent == LONG


async def test_a_result_that_is_too_long_for_the_crystal_is_shown_in_part(store: Store) -> None:
    bench = Bench(store)
    crystal = SmallCrystal([calls(("look", {})), finishes("seen"), says("still here")])
    made = Cantrip(crystal, Call(), circle(["done", look], [Ward(max_turns=5)]))
    async with bench.serve(crystal, cantrip=made):
        assert (await bench.talk("go")).text == "seen"
    async with bench.serve(crystal, cantrip=made):
        assert (await bench.talk("go on")).text == "still here"
    second, third = contents(crystal)[1:]
    assert "characters left out" in (second[2][1] or "")
    assert third[:3] == second, "after a restart it is shown the same"
    assert (await read_loom(await bench.open())).turns[0].gate_calls[0].result == LONG


async def test_a_failed_intent_that_nobody_could_take_does_not_fail_the_next_one(store: Store) -> None:
    """It was too long for the crystal that stood here first, of which nobody knew what it takes."""
    bench = Bench(store)
    async with bench.serve(ScriptedCrystal([CrystalError("bad_request", "prompt is too long", status=400)])):
        assert (await bench.talk(LONG)).ending == "failed"
    async with bench.serve(SmallCrystal([says("here")])):
        assert (await bench.talk("are you there?")).text == "here"


async def test_a_crystal_that_tells_nonsense_of_its_tokens_is_shown_what_was_asked(store: Store) -> None:
    bench, asked = Bench(store), "x" * 1500
    crystal = SmallCrystal([calls(("echo", {"text": "a"}), usage=Usage(prompt=10**12)), finishes("done")])
    async with bench.serve(crystal):
        assert (await bench.talk(asked)).text == "done"
    assert [request[0] for request in contents(crystal)] == [("user", asked)] * 2


def test_what_fits_stays_as_it_is() -> None:
    view = View((Message("system", "s"),), None, (), (Message("user", "x" * 1000),))
    assert fitted(view, 1000) is view
    assert (fits(800, 1000), fits(801, 1000)) == (True, False)


def test_what_the_crystal_said_and_its_call_are_never_shortened() -> None:
    said = Message("assistant", "y" * 9000, (ToolCall("1", "echo", "z" * 9000),))
    turn = TurnMessages(number=1, messages=(said, Message("tool", "t" * 9000, tool_call_id="1")))
    view = View((Message("system", "s" * 9000),), None, (turn,), ())
    made = fitted(view, 1000)
    assert (made.system, made.turns[0].messages[0]) == (view.system, said)
    assert len(made.turns[0].messages[1].content or "") < SHORTEST + 100
    assert fitted(made, 1000) == made, "and what is as short as may be is not shortened again"


def test_dense_text_is_shortened_more() -> None:
    view = View((), Folded(through=1, summary="", intents=(Message("user", "i" * 9000),)), (), (LONG_INTENT,))
    sparse, dense = fitted(view, 4000), fitted(view, 4000, density=3)
    assert estimate_tokens(dense.messages) * 2 < estimate_tokens(sparse.messages) <= 1700


LONG_INTENT = Message("user", LONG)
