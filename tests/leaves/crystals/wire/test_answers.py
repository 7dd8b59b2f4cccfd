"""Answers to the letter: texts, calls, tokens, and conversations through them."""

from __future__ import annotations

import msgspec
import pytest

from branches.agents.crystal import (
    CrystalError,
    CrystalRequest,
    CrystalResponse,
    Message,
    Sampling,
    ToolCall,
    Usage,
)
from branches.agents.retrying import Retrying
from coven.testing.providers import ProviderServer, Reply
from leaves.crystals._remote import RemoteCrystal
from tests.leaves.crystals.providers import LOCAL, OPENROUTER, Provider
from tests.leaves.crystals.wire.conversation import ASKED, TOOLS, WIRE, ask, then


async def test_text(crystal: RemoteCrystal, server: ProviderServer, streamed: bool):
    server.replies = [
        Reply(text="Good morning. \u2615 Caf\u00e9?", prompt_tokens=12, cached_tokens=8, completion_tokens=5)
    ]
    response = await ask(crystal, CrystalRequest(ASKED), streamed)
    assert response.content == "Good morning. \u2615 Caf\u00e9?"
    assert response.tool_calls == ()
    assert response.usage == Usage(prompt=12, completion=5, cached=8)
    assert response.model == crystal.model


async def test_several_calls_with_text(crystal: RemoteCrystal, server: ProviderServer, streamed: bool):
    arguments = ('{"path": "a.txt"}', '{"path": "b \u2615.txt"}')
    server.replies = [Reply(text="I look.", calls=((WIRE, arguments[0]), (WIRE, arguments[1])))]
    response = await ask(crystal, CrystalRequest(ASKED, TOOLS), streamed)
    assert response.content == "I look."
    assert [call.gate for call in response.tool_calls] == ["fs.read_text", "fs.read_text"]
    assert [msgspec.json.decode(call.arguments) for call in response.tool_calls] == [
        {"path": "a.txt"},
        {"path": "b \u2615.txt"},
    ]


async def test_a_conversation_with_thoughts_and_calls(
    crystal: RemoteCrystal, provider: Provider, server: ProviderServer, streamed: bool
):
    server.replies = [
        Reply(thinking="First a.", text="I look.", calls=((WIRE, '{"path": "a.txt"}'), (WIRE, '{"path": "b.txt"}'))),
        Reply(thinking="Then done.", calls=((WIRE, '{"path": "c.txt"}'),)),
        Reply(text="All read."),
    ]
    messages = ASKED
    for _ in range(2):
        response = await ask(crystal, CrystalRequest(messages, TOOLS), streamed)
        if provider.thinks:
            assert response.thinking in ("First a.", "Then done.")
        assert (response.opaque is not None) is (provider.returns is not None)
        messages = then(messages, response)
    assert (await ask(crystal, CrystalRequest(messages, TOOLS), streamed)).content == "All read."
    assert server.refused == []
    if provider.returns is not None:
        assert [msgspec.json.encode(each.body).count(provider.returns) for each in server.requests] == [0, 1, 2]


async def test_thoughts_that_no_longer_fit_are_left_out(crystal: RemoteCrystal, server: ProviderServer, streamed: bool):
    """After a fold other messages stand before them, and another model's are nobody else's."""
    server.replies = [Reply(thinking="Hm.", text="I look.", calls=((WIRE, '{"path": "a.txt"}'),)), Reply(text="Yes.")]
    response = await ask(crystal, CrystalRequest(ASKED, TOOLS), streamed)
    folded = (Message("system", "You are terse."), Message("user", "Turns 1 to 3 are folded."))
    foreign = CrystalResponse("Elsewhere.", model="else/where", opaque='{"thoughts": 1}')
    messages = then(then(folded, foreign, Message("user", "Go on.")), response)
    assert (await ask(crystal, CrystalRequest(messages, TOOLS), streamed)).content == "Yes."


async def test_a_conversation_from_elsewhere(crystal: RemoteCrystal, server: ProviderServer, streamed: bool):
    """Foreign ids, ids used twice, a call without a result, arguments that are none, and an ending in its own words."""
    server.replies = [Reply(text="Yes.")]
    call = ToolCall("call:1/x", "fs.read_text", '{"path": "a"}')
    messages = (
        *ASKED,
        Message("assistant", None, (call, ToolCall("call:1/y", "shell.exec", "ls"))),
        Message("tool", "", tool_call_id="call:1/x"),
        Message("assistant", " ", (call,)),
        Message("tool", "no", tool_call_id="call:1/x", is_error=True),
        Message("user", ""),
        Message("assistant", "And now"),
        Message("assistant", "this."),
    )
    assert (await ask(crystal, CrystalRequest(messages, TOOLS), streamed)).content == "Yes."


async def test_arguments_that_are_cut_off_stay_for_the_circle_to_refuse(crystal: RemoteCrystal, server: ProviderServer):
    server.replies = [Reply(calls=((WIRE, '{"path": "a.t'),), finish="length"), Reply(text="Yes.")]
    response = await ask(crystal, CrystalRequest(ASKED, TOOLS), True)
    assert response.tool_calls[0].gate == "fs.read_text"
    assert (await ask(crystal, CrystalRequest(then(ASKED, response), TOOLS), True)).content == "Yes."


@pytest.mark.parametrize("arguments", ['{"path": "a.t', '{"path": "a.txt"}'])
async def test_calls_that_were_cut_off_say_so(
    crystal: RemoteCrystal, server: ProviderServer, streamed: bool, arguments: str
):
    """Whether what there is of the last one is valid or not."""
    server.replies = [Reply(text="I look.", calls=((WIRE, '{"path": "b.txt"}'), (WIRE, arguments)), finish="length")]
    response = await ask(crystal, CrystalRequest(ASKED, TOOLS), streamed)
    assert (response.finish, len(response.tool_calls)) == ("length", 2)


async def test_calls_that_use_up_all_tokens_were_cut_off(server: ProviderServer, streamed: bool):
    """Local servers may say that the answer ends with its calls, also where the limit ended it within one."""
    crystal = LOCAL.make(server.url)
    request = CrystalRequest(ASKED, TOOLS, sampling=Sampling(max_tokens=9))
    server.replies = [Reply(calls=((WIRE, "{}"),), completion_tokens=used) for used in (8, 9)]
    assert [(await ask(crystal, request, streamed)).finish for _ in range(2)] == ["tool_calls", "length"]
    await crystal.close()


async def test_why_an_answer_ends(crystal: RemoteCrystal, server: ProviderServer, streamed: bool):
    server.replies = [Reply(text="Yes."), Reply(calls=((WIRE, "{}"),)), Reply(text="And th", finish="length")]
    finishes = [(await ask(crystal, CrystalRequest(ASKED, TOOLS), streamed)).finish for _ in range(3)]
    assert finishes == ["stop", "tool_calls", "length"]


async def test_an_answer_that_is_broken_off_for_another_reason(
    crystal: RemoteCrystal, provider: Provider, server: ProviderServer, streamed: bool
):
    """Chat completions have an error for that, which may pass."""
    server.replies = [Reply(text="And th", finish="broken_off", message="Overloaded")]
    request = CrystalRequest(ASKED, TOOLS)
    if provider in (OPENROUTER, LOCAL):
        with pytest.raises(CrystalError, match="Overloaded") as caught:
            await ask(crystal, request, streamed)
        assert Retrying().allows(caught.value, 1)
    else:
        assert (await ask(crystal, request, streamed)).finish == "other"


async def test_a_call_is_required(crystal: RemoteCrystal, provider: Provider, server: ProviderServer, streamed: bool):
    call = Reply(calls=((WIRE, '{"path": "a.txt"}'),), completion_tokens=2)
    server.replies = [call] if provider.forces else [Reply(text="I would.", completion_tokens=1), call]
    response = await ask(crystal, CrystalRequest(ASKED, TOOLS, "required"), streamed)
    assert response.tool_calls[0].gate == "fs.read_text"
    assert response.usage.completion == (2 if provider.forces else 3)


async def test_no_call_is_wanted(crystal: RemoteCrystal, server: ProviderServer, streamed: bool):
    server.replies = [Reply(calls=((WIRE, "{}"),)), Reply(text="Summed up.")]
    messages = then(ASKED, await ask(crystal, CrystalRequest(ASKED, TOOLS), streamed))
    response = await ask(crystal, CrystalRequest(messages, TOOLS, "none"), streamed)
    assert response.content == "Summed up."


async def test_an_answer_cut_off_before_it_began(crystal: RemoteCrystal, server: ProviderServer, streamed: bool):
    server.replies = [Reply(finish="length")]
    with pytest.raises(CrystalError, match="max_tokens") as caught:
        await ask(crystal, CrystalRequest(ASKED), streamed)
    assert caught.value.code == "invalid_response"
