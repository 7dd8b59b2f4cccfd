"""A conversation goes on, whatever it has been through: every provider takes the transcript that it is sent."""

from __future__ import annotations

import pytest

from branches.agents.crystal import Message, ToolCall
from tests.leaves.crystals.contract.subject import BRIEF, READ, Subject, then, user

GO_ON = user("Say exactly this and nothing else: pong")
CALL = ToolCall("call:1/x", "fs.read_text", '{"path": "a.txt"}')
FOREIGN = Message("assistant", "I look.", (CALL,), model="else/where", opaque='{"thoughts": "of another model"}')
RESULT = Message("tool", "walnut", tool_call_id=CALL.id)
ODD: dict[str, tuple[Message, ...]] = {
    "from another provider": (user("Read a.txt."), FOREIGN, RESULT, Message("assistant", "It says walnut."), GO_ON),
    "cut off in a call": (user("Read a.txt."), FOREIGN, GO_ON),
    "one of two results is missing": (
        user("Read a.txt."),
        Message("assistant", None, (CALL, ToolCall("call:1/y", "fs.read_text", '{"path": "b.txt"}'))),
        RESULT,
        GO_ON,
    ),
    "an id that is used twice": (
        user("Read a.txt."),
        *(Message("assistant", None, (CALL,)), RESULT),
        *(Message("assistant", None, (CALL,)), RESULT),
        GO_ON,
    ),
    "arguments that are none": (
        user("Run ls."),
        Message("assistant", None, (ToolCall("c1", "shell.exec", "ls"), ToolCall("c2", "shell.exec", '{"cmd": "l'))),
        Message("tool", "Error: bad_arguments", tool_call_id="c1", is_error=True),
        Message("tool", "", tool_call_id="c2"),
        GO_ON,
    ),
    "folded before a call": (user("Turns 1 to 3 are folded: nothing of note."), FOREIGN, RESULT, GO_ON),
    "it begins with an answer": (Message("assistant", "Good morning."), GO_ON),
    "several prompts in a row": (user("Wait."), user(""), user("Now."), GO_ON),
    "several answers in a row": (user("Well?"), Message("assistant", "I"), Message("assistant", "see."), GO_ON),
    "an answer of nothing": (user("Well?"), Message("assistant", " "), GO_ON),
}


@pytest.mark.parametrize("odd", ODD.values(), ids=[name.replace(" ", "-") for name in ODD])
async def test_an_odd_transcript(subject: Subject, streamed: bool, odd: tuple[Message, ...]):
    response = await subject.ask(BRIEF, *odd, tools=(READ,), streamed=streamed)
    assert "pong" in (response.content or "")


async def test_one_that_ends_with_an_answer_is_gone_on_with(subject: Subject, streamed: bool):
    await subject.ask(BRIEF, user("Count to five."), Message("assistant", "one, two,"), streamed=streamed)


@pytest.mark.parametrize("changed", ["nothing", "folded", "another system prompt", "other tools", "cancelled"])
async def test_its_own_thoughts_go_back_where_they_still_fit(subject: Subject, streamed: bool, changed: str):
    """And are left out where they would not be taken: behind something else than what they were thought about."""
    asked = (BRIEF, user("Read a.txt with the tool."))
    response = await subject.ask(*asked, tools=(READ,), tool_choice="required", streamed=streamed)
    system, prompt, *spoken = then(asked, response)
    tools = (READ,)
    if changed == "folded":
        prompt = user("Turns 1 to 3 are folded: a file was to be read.")
    elif changed == "another system prompt":
        system = Message("system", f"{BRIEF.content} Be kind.")
    elif changed == "other tools":
        tools = ()
    elif changed == "cancelled":
        spoken = [each for each in spoken if each.role != "tool"]
    if not tools:  # a circle may have lost its gates, but then calls are no longer among what is shown
        spoken = [Message("assistant", "It says walnut.", model=response.model, opaque=response.opaque)]
    again = await subject.ask(system, prompt, *spoken, GO_ON, tools=tools, streamed=streamed)
    assert "pong" in (again.content or "")
