"""An answer that was cut off: its last call is not made, and its text says that it is not whole."""

from __future__ import annotations

from typing import Any

import pytest

from branches.agents.call import Call
from branches.agents.cantrip import Cantrip
from branches.agents.circle import GateCall, Observation, circle
from branches.agents.context import NUDGE
from branches.agents.crystal import CrystalError, CrystalRequest, CrystalResponse, Finish, ToolCall, validate
from branches.agents.events import FinalResponseEvent, ToolResultEvent, follow
from branches.agents.loom import read_loom
from branches.agents.options import AgentsOptions, CircleOptions
from branches.agents.utterances import utterance_in
from branches.agents.wards import Ward
from coven.casting import invoke
from coven.testing import ScriptedCrystal, calls, finishes, says
from journals import Store
from tests.branches.agents.bench import Bench, Playbook, options

NOT_MADE = (
    "cut_off: the answer was cut off at this call, which may lack a part and was not made; make it again, shorter"
)
CUT: list[Finish] = ["length", "other"]


def results(crystal: ScriptedCrystal, request: int = -1) -> list[tuple[str | None, bool]]:
    return [(each.content, each.is_error) for each in crystal.requests[request].messages if each.role == "tool"]


@pytest.mark.parametrize("finish", CUT)
async def test_the_last_call_of_an_answer_that_was_cut_off_is_not_made_although_it_is_valid(finish: Finish) -> None:
    """Some providers mend what there is of the arguments. What came before it is whole."""
    cut = calls(("echo", {"text": "1"}), ("echo", {"text": "2"}), ("echo", {}), finish=finish)
    bench, crystal = Bench(), ScriptedCrystal([cut, finishes("ok")])
    async with bench.serve(crystal):
        assert (await bench.talk("go")).text == "ok"
    assert results(crystal) == [("1", False), ("2", False), (f"Error: {NOT_MADE}", True)]
    assert len(await bench.records("AgentToolCall")) == 2


@pytest.mark.parametrize("finish", [None, "stop", "tool_calls"])
async def test_the_calls_of_an_answer_that_is_whole_are_made(finish: Finish | None) -> None:
    call = CrystalResponse(tool_calls=(ToolCall("a", "echo", '{"text": "1"}'),), finish=finish)
    bench, crystal = Bench(), ScriptedCrystal([call, finishes("ok")])
    async with bench.serve(crystal):
        await bench.talk("go")
    assert results(crystal) == [("1", False)]


@pytest.mark.parametrize("arguments", ["", "{}", '{"text": "hal'])
async def test_an_only_call_that_was_cut_off_reaches_nobody(arguments: str) -> None:
    """Neither as a call of its own nor together with the utterance."""
    bench, crystal = Bench(), ScriptedCrystal([calls(("echo", arguments), finish="length"), finishes("ok")])
    async with bench.serve(crystal):
        await bench.talk("go")
    assert results(crystal) == [(f"Error: {NOT_MADE}", True)]
    assert await bench.records("AgentToolCall") == []


async def test_nobody_is_asked_to_approve_half_a_call() -> None:
    chosen = AgentsOptions(
        circle=CircleOptions(gates=("done", "echo"), wards=(Ward(max_turns=3),), approve=("echo",)),
    )
    bench, crystal = Bench(), ScriptedCrystal([calls(("echo", {"text": "1"}), finish="length"), finishes("ok")])
    async with bench.serve(crystal, chosen):
        assert (await bench.talk("go")).text == "ok"
    assert await bench.records("ApprovalAsked") == []


async def test_calls_that_do_not_wait_for_each_other_are_made_but_for_the_last() -> None:
    cut = calls(("echo", {"text": "1"}), ("echo", {"text": "2"}), finish="length")
    chosen = AgentsOptions(
        circle=CircleOptions(gates=("done", "echo"), wards=(Ward(max_turns=3),), independent=True),
    )
    bench, crystal = Bench(), ScriptedCrystal([cut, finishes("ok")])
    async with bench.serve(crystal, chosen):
        await bench.talk("go")
    assert results(crystal) == [("1", False), (f"Error: {NOT_MADE}", True)]


async def test_half_an_answer_ends_nothing() -> None:
    bench = Bench()
    crystal = ScriptedCrystal([calls(("done", {"answer": "The answer is"}), finish="length"), finishes("42")])
    async with bench.serve(crystal):
        assert (await bench.talk("go")).text == "42"


@pytest.mark.parametrize("medium", ["javascript", "python"])
async def test_half_a_piece_of_code_is_not_run(medium: str) -> None:
    ran = list[str]()

    def note(text: str) -> str:
        """Write it down."""
        ran.append(text)
        return text

    code = {"javascript": 'note({"text": "1"})', "python": 'note(text="1")'}[medium]
    done = {"javascript": 'done({"answer": "ok"})', "python": 'done(answer="ok")'}[medium]
    crystal = ScriptedCrystal([calls(("execute", {"code": code}), finish="length"), calls(("execute", {"code": done}))])
    async with invoke(Cantrip(crystal, Call(), circle(["done", note], [Ward(max_turns=3)], medium))) as entity:
        assert (await entity.ask("go")).answer == "ok"
    assert results(crystal) == [(NOT_MADE, True)]
    assert ran == []


@pytest.mark.parametrize(
    ("finish", "told"),
    [
        ("length", "(The answer was cut off here: it reached its limit of tokens.)"),
        ("other", "(The answer was cut off here by its provider.)"),
    ],
)
async def test_a_text_that_was_cut_off_ends_the_episode_and_says_so(finish: Finish, told: str) -> None:
    """To people; the answer itself, and what the crystal is shown of it later, is what it said."""
    bench, crystal = Bench(), ScriptedCrystal([says("Once upon a", finish=finish), says("time")])
    async with bench.serve(crystal):
        response = await bench.talk("tell me a story")
        await bench.talk("and then?")
    assert (response.text, response.answer) == (f"Once upon a\n\n{told}", "Once upon a")
    assert (response.ending, response.last and response.last.finish) == ("terminated", finish)
    assert [message.content for message in crystal.requests[1].messages] == [
        "tell me a story",
        "Once upon a",
        "and then?",
    ]


async def test_a_text_that_was_cut_off_where_done_is_required_is_gone_on_with() -> None:
    bench, crystal = Bench(), ScriptedCrystal([says("Once upon a", finish="length"), finishes("ok")])
    async with bench.serve(crystal, options(require_done_tool=True)):
        assert (await bench.talk("go")).text == "ok"
    assert [message.content for message in crystal.requests[1].messages] == ["go", "Once upon a", NUDGE]


async def test_a_parent_is_told_that_its_childs_answer_was_cut_off() -> None:
    crystal = ScriptedCrystal([calls(("call_agent", {"intent": "help"})), finishes("ok")])
    child = ScriptedCrystal([says("Half of", finish="length")])
    made = Cantrip(
        crystal,
        Call(),
        circle(["done", "call_agent"], [Ward(max_turns=3)]),
        child_crystals=(child,),
    )
    async with invoke(made) as entity:
        await entity.ask("go")
        loom = await entity.loom()
    assert results(crystal) == [("Half of\n\n(The answer was cut off here: it reached its limit of tokens.)", False)]
    assert [turn.result for turn in loom.turns if turn.finish == "length"] == ["Half of"]


SCRIPT = [
    calls(("echo", {"text": "1"}), ("echo", {"text": "2"}), text="I look.", finish="length"),
    says("Once upon a", finish="length"),
    says("time"),
]


async def test_why_each_answer_ended_is_recorded(store: Store) -> None:
    """With the first call, by itself or with the response; the loom and the events tell it as it was."""
    bench, script = Bench(store), [*SCRIPT[:2], calls(("nope", {})), finishes("ok")]
    async with bench.serve(ScriptedCrystal(script)):
        first = await bench.ask("one")
        await bench.response(first)
        await bench.talk("two")
    said = [each for record in await bench.records() if (each := utterance_in(record)) is not None]
    assert [each.finish for each in said] == ["length", "length", "tool_calls", "tool_calls"]
    assert [each.content for each in said[:2]] == ["I look.", "Once upon a"]
    journal = await bench.open()
    loom = await read_loom(journal, "s")
    assert [turn.finish for turn in loom.turns] == ["length", "length", "tool_calls", "tool_calls"]
    assert [call.is_error for call in loom.turns[0].gate_calls] == [False, True]
    assert loom.turns[0].gate_calls[1].args == {"text": "2"}
    assert loom.turns[1].result == "Once upon a"
    events = [event async for event in follow(journal, first)]
    seen = [(event.result, event.is_error) for event in events if isinstance(event, ToolResultEvent)]
    assert seen == [("1", False), (NOT_MADE, True)]
    (final,) = [event for event in events if isinstance(event, FinalResponseEvent)]
    assert (final.answer, final.finish) == ("Once upon a", "length")


async def test_a_restart_between_any_two_records_changes_nothing() -> None:
    whole = Bench()
    async with whole.serve(Playbook(SCRIPT)):
        await whole.talk("one")
        await whole.talk("two")
    records, expected = await whole.records(), await whole.outcome()
    for cut in range(1, len(records)):
        again = Bench()
        for record in records[:cut]:
            await again.copy(record)
        async with again.serve(Playbook(SCRIPT)):
            await again.talk("one")
            await again.talk("two")
        assert await again.outcome() == expected, f"cut before record {cut}"


def test_a_circle_reads_what_an_answer_calls() -> None:
    made = circle(["done", "call_agent"], [Ward(max_turns=3)])
    each = (ToolCall("a", "call_agent", '{"intent": "x"}'), ToolCall("b", "call_agent", '{"intent": "y"}'))
    assert [type(one) for one in made.read_all(each, "tool_calls")] == [GateCall, GateCall]
    assert [type(one) for one in made.read_all(each, "length")] == [GateCall, Observation]
    assert list(made.read_all((), "length")) == []


def test_a_crystal_of_ones_own_uses_the_words_there_are() -> None:
    bad: Any = "max_tokens"
    with pytest.raises(CrystalError, match="another shape"):
        validate(CrystalResponse("hello", finish=bad), CrystalRequest(()))
