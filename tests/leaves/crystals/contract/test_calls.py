"""The calls that every crystal makes, and a conversation through them."""

from __future__ import annotations

import json

from branches.agents.circle import GateCall, circle
from branches.agents.crystal import CrystalError, CrystalResponse, Message, Sampling
from branches.agents.wards import Ward
from tests.leaves.crystals.contract.subject import BRIEF, READ, SAYS, WRITE, Subject, then, user

READ_BOTH = user(
    "Read a.txt and b.txt with the tool, both of them in one go, and then say what they say. Ask me nothing."
)


def paths(response: CrystalResponse) -> list[str]:
    """What the calls are about. Their arguments are JSON objects."""
    return [json.loads(call.arguments)["path"] for call in response.tool_calls]


async def read_both(subject: Subject, streamed: bool) -> tuple[tuple[Message, ...], list[CrystalResponse]]:
    """All that is said until both are read, in as many calls at once as the model likes."""
    messages: tuple[Message, ...] = (BRIEF, READ_BOTH)
    responses: list[CrystalResponse] = []
    for _ in range(4):
        responses.append(await subject.ask(*messages, tools=(READ,), streamed=streamed))
        messages = then(messages, responses[-1])
        if not responses[-1].tool_calls:
            break
    return messages, responses


async def test_several_calls_and_what_came_of_them(subject: Subject, streamed: bool):
    """CRYSTAL-4, and what the provider wants back of its thoughts goes back with the next request: it takes it."""
    _, responses = await read_both(subject, streamed)
    called = [call for response in responses for call in response.tool_calls]
    assert {call.gate for call in called} == {"fs.read_text"}
    assert {path for response in responses for path in paths(response)} == set(SAYS)
    for response in responses:
        assert len({call.id for call in response.tool_calls}) == len(response.tool_calls)
        if response.opaque is not None:
            json.loads(response.opaque)
    said = (responses[-1].content or "").lower()
    assert all(word in said for word in SAYS.values())


async def test_a_call_is_required(subject: Subject, streamed: bool):
    """CRYSTAL-5: also of a model that cannot be made to, and that has nothing to call for."""
    response = await subject.ask(BRIEF, user("Good morning!"), tools=(READ,), tool_choice="required", streamed=streamed)
    assert response.tool_calls[0].gate == "fs.read_text"
    assert isinstance(json.loads(response.tool_calls[0].arguments), dict)


async def test_a_call_is_required_behind_others(subject: Subject, streamed: bool):
    messages, _ = await read_both(subject, streamed)
    again = (*messages, user("Read a.txt once more."))
    response = await subject.ask(*again, tools=(READ,), tool_choice="required", streamed=streamed)
    assert response.tool_calls[0].gate == "fs.read_text"


async def test_a_call_that_was_cut_off_is_not_made(subject: Subject, streamed: bool):
    """Whether what there is of its arguments is valid or not: some providers mend them. And the talk can go on."""
    asked = (BRIEF, user("With the tool, write all the numbers from 1 to 500, in digits, into the file n.txt."))
    limit = Sampling(max_tokens=60)
    outcome = await subject.outcome(*asked, tools=(WRITE,), streamed=streamed, sampling=limit)
    if isinstance(outcome, CrystalError):
        assert "max_tokens" in str(outcome)
        return
    assert outcome.finish == "length"
    made = circle(["done", WRITE], [Ward(max_turns=1)]).read_all(outcome.tool_calls, outcome.finish)
    assert not any(isinstance(each, GateCall) for each in made)
    messages = then(asked, outcome, "Error: cut_off") if outcome.tool_calls else (*then(asked, outcome), user("Well?"))
    assert (await subject.ask(*messages, tools=(WRITE,), tool_choice="none", streamed=streamed)).content


async def test_no_call_is_wanted(subject: Subject, streamed: bool):
    messages, _ = await read_both(subject, streamed)
    again = (*messages, user("Read a.txt once more, or, if you cannot, say what you know of it already."))
    response = await subject.ask(*again, tools=(READ,), tool_choice="none", streamed=streamed)
    assert response.tool_calls == ()
    assert response.content


async def test_a_call_that_failed(subject: Subject, streamed: bool):
    asked = (BRIEF, user("Read a.txt with the tool."))
    response = await subject.ask(*asked, tools=(READ,), tool_choice="required", streamed=streamed)
    messages = then(asked, response, "Error: not_found: there is no such file")
    assert (await subject.ask(*messages, tools=(READ,), tool_choice="none", streamed=streamed)).content
