"""The entities of one run."""

from __future__ import annotations

from typing import Any

import pytest

from branches.agents import session
from branches.agents.call import Call
from branches.agents.cantrip import Cantrip
from branches.agents.circle import circle
from branches.agents.crystal import CrystalResponse
from branches.agents.entries import ApprovalAsked, ApprovalGiven
from branches.agents.family import Family
from branches.agents.wards import Ward
from coven.testing import calls, finishes, says
from tests.branches.agents.bench import Bench, Playbook


@pytest.fixture
def families(monkeypatch: pytest.MonkeyPatch) -> list[Family]:
    """Every family that is made."""
    made: list[Family] = []

    def kept(*given: Any, **named: Any) -> Family:
        made.append(Family(*given, **named))
        return made[-1]

    monkeypatch.setattr(session, "Family", kept)
    return made


async def test_it_keeps_nothing_of_calls_that_are_over_were_denied_or_are_not_made_again(
    families: list[Family],
) -> None:
    bench = Bench()
    batch = {"requests": ["a", "b", {"intent": ""}]}
    script: list[CrystalResponse] = [
        calls(("call_agent", {"intent": "one"}), ("call_agent_batch", batch)),
        calls(("ask_person", {"question": "Well?"})),
        finishes("ok"),
    ]

    def cantrip() -> Cantrip:
        gates = circle(
            ["done", "call_agent", "call_agent_batch", "ask_person"], [Ward(max_turns=5)], approve=["call_agent"]
        )
        return Cantrip(Playbook(script), Call(), gates, child_crystals=(Playbook([says("here")]),))

    async def answer(number: int, text: str) -> None:
        question = await bench.wait("ApprovalAsked", number)
        assert isinstance(question.entry, ApprovalAsked)
        given = ApprovalGiven(correlation_id=question.entry.correlation_id, answer=text, by="ada")
        await (await bench.open()).append(given, session=question.session, cause=question)

    first = cantrip()
    async with bench.serve(first.crystal, cantrip=first):
        prompt = await bench.ask("go")
        await answer(1, "no")
        await answer(2, "yes")
        await bench.wait("ApprovalAsked", 3)
        assert "1 calls that ask" in repr(families[0])
    again = cantrip()
    async with bench.serve(again.crystal, cantrip=again):
        await answer(3, "Well.")
        assert (await bench.response(prompt)).text == "ok"
    assert len(families) == 2
    assert all("0 children at work, 0 calls that ask" in repr(family) for family in families)
