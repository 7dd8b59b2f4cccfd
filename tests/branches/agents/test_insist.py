"""A required gate call from providers that cannot force one (CRYSTAL-5)."""

from __future__ import annotations

import pytest

from branches.agents import CrystalError, CrystalRequest, CrystalResponse, Message, Usage
from branches.agents.gates import DONE
from branches.agents.insist import Insisting
from coven.testing import ScriptedCrystal, calls, finishes, says

REQUIRED = CrystalRequest((Message("user", "hi"),), (DONE,), "required")


async def test_a_crystal_that_only_talks_is_asked_again_and_its_talk_stays_between_the_two() -> None:
    within = ScriptedCrystal([says("well", usage=Usage(10, 2)), calls(("done", {"answer": "ok"}), usage=Usage(20, 3))])
    heard: list[str] = []
    response = await Insisting(within).invoke(REQUIRED, heard.append)
    assert response == calls(("done", {"answer": "ok"}), usage=Usage(30, 5))
    assert heard == []
    assert within.requests[0] == CrystalRequest(REQUIRED.messages, REQUIRED.tools, "auto")
    assert list(within.requests[1].messages) == [
        Message("user", "hi"),
        Message("assistant", "well"),
        Message("user", "Answer with a tool call, not with text. Call one of these: done."),
    ]


async def test_the_text_beside_a_call_is_told() -> None:
    heard: list[str] = []
    within = ScriptedCrystal([calls(("done", {"answer": "ok"}), text="one\ntwo")])
    await Insisting(within).invoke(REQUIRED, heard.append)
    assert heard == ["one\n", "two"]


async def test_thoughts_are_told_of_the_answer_that_stands() -> None:
    heard: list[str] = []
    within = ScriptedCrystal([says("well", thinking="No call."), calls(("done", {"answer": "ok"}), thinking="A call.")])
    await Insisting(within).invoke(REQUIRED, heard.append, heard.append)
    assert heard == ["A call."]


async def test_a_crystal_that_tells_no_thoughts_is_asked_as_it_can_be() -> None:
    class Terse:
        async def invoke(self, request: CrystalRequest, on_text: object = None) -> CrystalResponse:
            assert callable(on_text)
            on_text("so")
            return calls(("done", {"answer": "ok"}), text="so", thinking="Hm.")

    heard, thoughts = list[str](), list[str]()
    response = await Insisting(Terse()).invoke(REQUIRED, heard.append, thoughts.append)
    assert (heard, thoughts, response.thinking) == (["so"], [], "Hm.")


async def test_a_crystal_that_never_calls_fails_clearly() -> None:
    within = ScriptedCrystal([says("well")] * 2)
    with pytest.raises(CrystalError, match=r"no tool call although tool_choice is 'required'.*asked 2 times") as caught:
        await Insisting(within, attempts=2).invoke(REQUIRED)
    assert caught.value.code == "invalid_response"
    assert within.remaining == 0


async def test_an_answer_that_is_nothing_at_all_is_left_to_the_contract() -> None:
    assert (await Insisting(ScriptedCrystal([says("")])).invoke(REQUIRED)).content == ""


@pytest.mark.parametrize(
    "request_",
    [CrystalRequest(REQUIRED.messages, (DONE,)), CrystalRequest(REQUIRED.messages, (DONE,), "none")],
)
async def test_where_no_call_is_required_nothing_is_changed(request_: CrystalRequest) -> None:
    within, heard = ScriptedCrystal([says("well")]), list[str]()
    assert await Insisting(within).invoke(request_, heard.append) == says("well")
    assert within.requests == [request_]
    assert heard == ["well"]


async def test_without_gates_nothing_can_be_demanded() -> None:
    bare = CrystalRequest(REQUIRED.messages, (), "required")
    within = ScriptedCrystal([says("well")])
    await Insisting(within).invoke(bare)
    assert within.requests == [bare]


def test_it_says_what_it_wraps() -> None:
    assert repr(Insisting(ScriptedCrystal([finishes("ok")]))) == (
        "<Insisting, 3 attempts, on <ScriptedCrystal 0 of 1 answers given>>"
    )
