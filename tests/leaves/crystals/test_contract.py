"""What every crystal keeps to, through its real SDK and over real HTTP (CRYSTAL-1 to CRYSTAL-6)."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

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
    validate,
)
from branches.agents.gates import DONE, GateDefinition
from branches.agents.permission import ModelRequestForbidden
from branches.agents.retrying import UNREACHABLE, Retrying
from branches.attachment import Attachment
from coven.testing import forbid_model_requests
from coven.testing.providers import ProviderServer, Reply
from leaves.crystals._anthropic import Assembling, build, read
from leaves.crystals._completions import Assembling as Completion
from leaves.crystals._completions import read as read_completion
from leaves.crystals._names import Names
from leaves.crystals._remote import RemoteCrystal
from tests.leaves.crystals.providers import OPENROUTER, PROVIDERS, Provider

READ = GateDefinition(
    name="fs.read_text",
    description="Read a file.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)
WIRE = "fs_read_text"
TOOLS = (READ, DONE)
ASKED = (Message("system", "You are terse."), Message("user", "What do a.txt and b.txt say? \u2615"))


@pytest.fixture(params=[False, True], ids=["request", "stream"])
def streamed(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.fixture
async def crystal(provider: Provider, server: ProviderServer) -> AsyncIterator[RemoteCrystal]:
    made = provider.make(server.url)
    yield made
    await made.close()


async def ask(crystal: RemoteCrystal, request: CrystalRequest, streamed: bool) -> CrystalResponse:
    """Ask, and check what holds for every answer."""
    pieces, thoughts = list[str](), list[str]()
    hearing = (pieces.append, thoughts.append) if streamed else ()
    response = validate(await crystal.invoke(request, *hearing), request)
    if streamed:
        assert "".join(pieces) == (response.content or "")
        assert "".join(thoughts) == (response.thinking or "")
    return response


def then(messages: tuple[Message, ...], response: CrystalResponse, *more: Message) -> tuple[Message, ...]:
    """The conversation after an answer, as the loop shows it."""
    said = Message("assistant", response.content, response.tool_calls, model=response.model, opaque=response.opaque)
    results = (Message("tool", f"result of {call.arguments}", tool_call_id=call.id) for call in response.tool_calls)
    return (*messages, said, *results, *more)


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


PNG = Attachment("chart.png", "image/png", b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
GIF = Attachment("dance.gif", "image/gif", b"GIF89a" + bytes(64))
BROKEN = Attachment("torn.png", "image/png", b"\x89PNG\r\n\x1a\nunreadable")


def with_images(*images: Attachment) -> tuple[Message, ...]:
    named = "\n".join(f"[attached: {image.name}]" for image in images)
    return (Message("system", "You are terse."), Message("user", f"What is this?\n{named}", images=images))


def told(server: ProviderServer, number: int = 0) -> str:
    return msgspec.json.encode(server.requests[number].body).decode()


async def test_an_image_is_shown(provider: Provider, server: ProviderServer, streamed: bool):
    """In the form of each provider, whose types and bytes the loopback server looks at."""
    crystal = provider.make(server.url, **provider.seeing)
    server.replies = [Reply(text="A chart."), Reply(text="It rises.")]
    messages = with_images(PNG)
    response = await ask(crystal, CrystalRequest(messages, TOOLS), streamed)
    messages = then(messages, response, Message("user", "And?"))
    assert (await ask(crystal, CrystalRequest(messages, TOOLS), streamed)).content == "It rises."
    data = base64.b64encode(PNG.body).decode()
    for number in (0, 1):
        assert data in told(server, number).replace("-", "+").replace("_", "/")
        assert "[attached: chart.png]" in told(server, number)
    assert server.refused == []
    await crystal.close()


async def test_an_image_behind_results_of_calls(provider: Provider, server: ProviderServer, streamed: bool):
    """An episode that was cut off in a call, and a new prompt with an image: both are heard at once."""
    crystal = provider.make(server.url, **provider.seeing)
    server.replies = [Reply(calls=((WIRE, "{}"),)), Reply(text="A chart.")]
    messages = then(ASKED, await ask(crystal, CrystalRequest(ASKED, TOOLS), streamed), with_images(PNG)[1])
    assert (await ask(crystal, CrystalRequest(messages, TOOLS), streamed)).content == "A chart."
    assert server.refused == []
    await crystal.close()


async def test_what_a_model_cannot_be_shown_is_said(provider: Provider, server: ProviderServer, streamed: bool):
    crystal = provider.make(server.url, **provider.seeing)
    crystal.sight = msgspec.structs.replace(crystal.sight, most_bytes=len(PNG.body), types=("image/png",))
    large = Attachment("large.png", "image/png", PNG.body + b"!")
    server.replies = [Reply(text="One chart.")]
    await ask(crystal, CrystalRequest(with_images(GIF, PNG, large)), streamed)
    assert "[dance.gif is not shown: this model takes no image/gif]" in told(server)
    assert "[large.png is not shown: larger than the" in told(server)
    assert "chart.png is not shown" not in told(server)
    await crystal.close()


async def test_a_model_without_sight_is_told_so(crystal: RemoteCrystal, server: ProviderServer, streamed: bool):
    crystal.sight = msgspec.structs.replace(crystal.sight, takes=False)
    server.replies = [Reply(text="I cannot see it.")]
    await ask(crystal, CrystalRequest(with_images(PNG)), streamed)
    assert "[chart.png is not shown: this model takes no images]" in told(server)
    assert server.refused == []


async def test_where_room_is_short_the_newest_images_are_shown(
    provider: Provider, server: ProviderServer, streamed: bool
):
    crystal = provider.make(server.url, **provider.seeing)
    crystal.sight = msgspec.structs.replace(crystal.sight, most_in_all=len(PNG.body))
    first, second = (Attachment(f"{name}.png", PNG.media_type, PNG.body) for name in ("first", "second"))
    messages = (*with_images(first), Message("assistant", "A chart."), with_images(second)[1])
    server.replies = [Reply(text="Another one.")]
    await ask(crystal, CrystalRequest(messages), streamed)
    assert "[first.png is not shown: newer images take the room there is]" in told(server)
    assert "second.png is not shown" not in told(server)
    await crystal.close()


async def test_an_image_that_the_provider_cannot_read_does_not_end_the_conversation(
    provider: Provider, server: ProviderServer, streamed: bool
):
    crystal = provider.make(server.url, **provider.seeing)
    server.replies = [Reply(text="It is torn.")]
    response = await ask(crystal, CrystalRequest(with_images(BROKEN)), streamed)
    assert response.content == "It is torn."
    assert len(server.refused) == 1
    assert "[torn.png is not shown: the provider did not take it]" in told(server, -1)
    await crystal.close()


@pytest.mark.parametrize("finish", ["refusal", "blocked"])
async def test_a_refusal_is_an_error(crystal: RemoteCrystal, server: ProviderServer, streamed: bool, finish: str):
    server.replies = [msgspec.convert({"finish": finish, "message": "That I do not do."}, Reply)]
    with pytest.raises(CrystalError) as caught:
        await ask(crystal, CrystalRequest(ASKED), streamed)
    assert (caught.value.code, caught.value.status) == ("refused", None)


async def test_an_answer_cut_off_before_it_began(crystal: RemoteCrystal, server: ProviderServer, streamed: bool):
    server.replies = [Reply(finish="length")]
    with pytest.raises(CrystalError, match="max_tokens") as caught:
        await ask(crystal, CrystalRequest(ASKED), streamed)
    assert caught.value.code == "invalid_response"


@pytest.mark.parametrize(
    ("status", "code", "retried"),
    [
        (400, "bad_request", False),
        (401, "unauthorized", False),
        (403, "unauthorized", False),
        (404, "not_found", False),
        (429, "rate_limited", True),
        (500, "unavailable", True),
        (503, "unavailable", True),
        (529, "unavailable", True),
    ],
)
async def test_an_error_has_one_vocabulary(
    crystal: RemoteCrystal, server: ProviderServer, streamed: bool, status: int, code: str, retried: bool
):
    """The SDK makes no second request: retries are the loop's."""
    server.replies = [Reply(status=status, message="Not now.", headers={"retry-after": "7"}), Reply(text="again")]
    with pytest.raises(CrystalError, match=r"Not now\.") as caught:
        await ask(crystal, CrystalRequest(ASKED), streamed)
    assert caught.value.code == code
    assert caught.value.retry_after_s == 7
    assert Retrying().allows(caught.value, 1) is retried
    assert len(server.requests) == 1


async def test_a_wrong_key_is_not_shown(provider: Provider, server: ProviderServer):
    wrong = ProviderServer(key="another-key")
    async with wrong:
        crystal = provider.make(wrong.url)
        with pytest.raises(CrystalError) as caught:
            await crystal.invoke(CrystalRequest(ASKED))
        await crystal.close()
    assert caught.value.code == "unauthorized"
    assert "loopback-key" not in str(caught.value)


async def test_an_error_in_the_middle_of_a_stream(crystal: RemoteCrystal, server: ProviderServer):
    server.replies = [Reply(text="Good mor", error_within="overloaded_error", message="Overloaded")]
    with pytest.raises(CrystalError, match="Overloaded") as caught:
        await crystal.invoke(CrystalRequest(ASKED), lambda text: None)
    assert Retrying().allows(caught.value, 1)


@pytest.mark.parametrize("breaks_after", [0, 60, 400])
async def test_a_connection_that_breaks(
    crystal: RemoteCrystal, server: ProviderServer, streamed: bool, breaks_after: int
):
    text = "Good morning. " * 60
    server.replies = [Reply(text=text, breaks_after=breaks_after)]
    with pytest.raises(CrystalError) as caught:
        await ask(crystal, CrystalRequest(ASKED), streamed)
    assert (caught.value.code, caught.value.status) == (UNREACHABLE, None)


async def test_nobody_answers(provider: Provider, server: ProviderServer, streamed: bool):
    async with ProviderServer() as gone:
        url = gone.url
    crystal = provider.make(url)
    with pytest.raises(CrystalError) as caught:
        await ask(crystal, CrystalRequest(ASKED), streamed)
    assert caught.value.code == UNREACHABLE
    await crystal.close()


async def test_a_first_byte_that_does_not_come_in_time(provider: Provider, server: ProviderServer, streamed: bool):
    server.replies = [Reply(text="late", hold=asyncio.Event())]
    crystal = provider.make(server.url, timeout_s=0.05)
    with pytest.raises(CrystalError) as caught:
        await ask(crystal, CrystalRequest(ASKED), streamed)
    assert caught.value.code == UNREACHABLE
    await crystal.close()


async def test_cancelling_closes_the_connection(crystal: RemoteCrystal, server: ProviderServer, streamed: bool):
    given_up = asyncio.Event()
    server.replies = [Reply(text="never", hold=asyncio.Event(), given_up=given_up), Reply(text="Here.")]
    asking = asyncio.create_task(ask(crystal, CrystalRequest(ASKED), streamed))
    await server.asked.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await given_up.wait()
    assert (await ask(crystal, CrystalRequest(ASKED), streamed)).content == "Here."


async def test_options_of_the_call_reach_the_provider(crystal: RemoteCrystal, server: ProviderServer, streamed: bool):
    """Those that it does not take are named once, in the log, and are not sent."""
    server.replies = [Reply(text="Yes.")]
    sampling = Sampling(temperature=0.5, top_p=0.5, max_tokens=123, stop=("END",))
    await ask(crystal, CrystalRequest(ASKED, sampling=sampling), streamed)
    sent = msgspec.json.encode(server.requests[0].body)
    assert b"123" in sent
    assert (b"END" in sent) is (crystal.provider != "openai"), "its API has no stop sequences, so it is not told"
    assert (b"temperature" in sent) is ("temperature" not in crystal.untaken)


async def test_what_was_sent_stays_the_beginning_of_what_is_sent_next(
    crystal: RemoteCrystal, provider: Provider, server: ProviderServer, streamed: bool
):
    """So that what a provider keeps of it is found again; Anthropic, and OpenRouter for it, are told what to keep."""
    server.replies = [Reply(thinking="Hm.", text="I look.", calls=((WIRE, '{"path": "a.txt"}'),)), Reply(text="Yes.")]
    messages = then(ASKED, await ask(crystal, CrystalRequest(ASKED, TOOLS), streamed))
    await ask(crystal, CrystalRequest(messages, TOOLS), streamed)
    first, second = (kept(each.body) for each in server.requests)
    assert first.items() - second.items() == set()
    said = provider.name == "anthropic"
    assert [json.dumps(each.body).count('"cache_control"') for each in server.requests] == [2 * said, 2 * said]


def kept(body: Mapping[str, Any]) -> dict[str, str]:
    """The parts of a request that a provider reads first, each as text, without the marks of what it is to keep."""
    parts = {name: body[name] for name in ("system", "tools", "instructions", "systemInstruction") if name in body}
    said = body.get("messages") or body.get("input") or body["contents"]
    parts |= {f"message {number}": each for number, each in enumerate(said)}
    texts = {name: json.dumps(each, sort_keys=True) for name, each in parts.items()}
    return {name: text.replace('"cache_control": {"type": "ephemeral"}, ', "") for name, text in texts.items()}


async def test_a_model_of_anthropic_behind_openrouter_is_told_what_to_keep(server: ProviderServer, streamed: bool):
    crystal = OPENROUTER.make(server.url, model="anthropic/claude-sonnet-5-5")
    server.replies = [Reply(text="Yes.")]
    await ask(crystal, CrystalRequest(ASKED, TOOLS), streamed)
    assert server.requests[0].body["messages"][0]["content"][0]["cache_control"] == {"type": "ephemeral"}
    await crystal.close()


def test_a_context_limit_is_known_of_the_model_or_configured(provider: Provider):
    known = provider.make("http://127.0.0.1:9").context_limit
    assert (known is not None) is (provider.name in ("anthropic", "openai", "gemini"))
    assert provider.make("http://127.0.0.1:9", context_limit=5_000).context_limit == 5_000
    if known is not None:
        assert provider.make("http://127.0.0.1:9", model="a-model-of-tomorrow").context_limit is None


@pytest.mark.parametrize(
    ("name", "model", "takes"),
    [
        ("openai", "gpt-5", True),
        ("openai", "gpt-5-2025-08-07", True),
        ("openai", "o3-mini", False),
        ("openai", "gpt-3.5-turbo", False),
        ("openai", "a-model-of-tomorrow", True),
        ("anthropic", "claude-haiku-4-5", True),
        ("gemini", "gemini-2.5-flash", True),
        ("openrouter", "openrouter/auto", True),
        ("openrouter", "openai/gpt-5", True),
        ("openrouter", "openai/o3-mini", False),
        ("openrouter", "qwen/qwen3-coder", False),
        ("local", "gemma", False),
    ],
)
def test_which_models_take_images_is_known(name: str, model: str, takes: bool):
    made = next(each for each in PROVIDERS if each.name == name)
    assert made.make("http://127.0.0.1:9", model=model).sight.takes is takes


THOUGHT = "First a,\nthen b. \u2615\n\nThen I tell.\n\nBriefly."


async def test_a_thought_that_comes_in_pieces_is_the_one_that_comes_whole(
    crystal: RemoteCrystal, provider: Provider, server: ProviderServer
):
    if not provider.thinks:
        pytest.skip("this one lets no thoughts be seen")
    server.replies = [Reply(thinking=THOUGHT, text="Both."), Reply(thinking=THOUGHT, text="Both.")]
    heard: list[tuple[str, str]] = []
    streamed = await crystal.invoke(
        CrystalRequest(ASKED), lambda text: heard.append(("text", text)), lambda text: heard.append(("thought", text))
    )
    assert (await crystal.invoke(CrystalRequest(ASKED))).thinking == streamed.thinking == THOUGHT
    kinds = [kind for kind, _ in heard]
    assert kinds == sorted(kinds, reverse=True), "the thought comes before what it led to"
    assert kinds.count("thought") > 2
    assert "".join(text for kind, text in heard if kind == "thought") == THOUGHT
    assert "".join(text for kind, text in heard if kind == "text") == "Both."


async def test_who_hears_only_the_text_hears_nothing_of_a_thought(crystal: RemoteCrystal, server: ProviderServer):
    server.replies = [Reply(thinking=THOUGHT, text="Both.")]
    pieces: list[str] = []
    await crystal.invoke(CrystalRequest(ASKED), pieces.append)
    assert "".join(pieces) == "Both."


def test_what_is_signed_or_redacted_is_never_told():
    """Anthropic's stream: the loopback server redacts nothing."""
    assembling = Assembling()
    blocks: list[tuple[dict[str, object], list[dict[str, object]]]] = [
        (
            {"type": "thinking", "thinking": "", "signature": ""},
            [
                {"type": "thinking_delta", "thinking": "One"},
                {"type": "thinking_delta", "thinking": "."},
                {"type": "signature_delta", "signature": "c2lnbmVk"},
            ],
        ),
        ({"type": "redacted_thinking", "data": "c2VjcmV0"}, []),
        ({"type": "thinking", "thinking": ""}, [{"type": "thinking_delta", "thinking": "Two."}]),
        ({"type": "text", "text": ""}, [{"type": "text_delta", "text": "Yes."}]),
    ]
    events: list[dict[str, object]] = []
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += ({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        events.append({"type": "content_block_stop", "index": index})
    events += [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, {"type": "message_stop"}]
    pieces = [assembling.take(event) for event in events]
    response = read(assembling.message, build(CrystalRequest(ASKED), "anthropic/m"), "anthropic/m")
    assert "".join(piece.thought for piece in pieces) == response.thinking == "One.\n\nTwo."
    assert "".join(piece.text for piece in pieces) == response.content == "Yes."


@pytest.mark.parametrize(
    "deltas",
    [
        [{"reasoning_content": "Let "}, {"reasoning_content": "me see."}, {"content": "Yes."}],
        [{"reasoning": "Let "}, {"reasoning": "me see."}, {"content": "Yes."}],
        [
            {"reasoning": "Let ", "reasoning_content": "Let "},
            {"reasoning": "me see.", "reasoning_content": "me see."},
            {"content": "Yes.", "reasoning_content": None},
        ],
    ],
    ids=["reasoning_content", "reasoning", "both"],
)
def test_completions_name_a_thought_in_two_ways_and_it_is_told_once(deltas: list[dict[str, object]]):
    assembling = Completion()
    pieces = [assembling.take({"choices": [{"delta": delta}]}) for delta in deltas]
    assembling.take({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    response = read_completion(assembling.completion, Names(()), "local/m")
    assert "".join(piece.thought for piece in pieces) == response.thinking == "Let me see."
    assert "".join(piece.text for piece in pieces) == response.content == "Yes."


async def test_a_thought_that_nobody_may_read_goes_back_as_it_came():
    """Anthropic's safety systems encrypt some; the loopback server has none."""
    block = {"type": "redacted_thinking", "data": "c2VjcmV0"}
    built = build(CrystalRequest(ASKED), "anthropic/m")
    message = {"content": [block, {"type": "text", "text": "Yes."}], "stop_reason": "end_turn"}
    response = read(message, built, "anthropic/m")
    again = build(CrystalRequest(then(ASKED, response, Message("user", "And?"))), "anthropic/m", cache=False)
    assert again.body["messages"][1]["content"] == [block, {"type": "text", "text": "Yes."}]
    elsewhere = build(CrystalRequest(then(ASKED, response, Message("user", "And?"))), "anthropic/other", cache=False)
    assert elsewhere.body["messages"][1]["content"] == [{"type": "text", "text": "Yes."}]


async def test_a_crystal_outlasts_an_event_loop(provider: Provider, server: ProviderServer):
    """A script may call `asyncio.run` more than once with the same cantrip."""
    server.replies = [Reply(text="One."), Reply(text="Two.")]
    crystal = provider.make(server.url)

    async def asking() -> str | None:
        return (await crystal.invoke(CrystalRequest(ASKED))).content

    assert await asyncio.to_thread(asyncio.run, asking()) == "One."
    assert await asyncio.to_thread(asyncio.run, asking()) == "Two."
    await crystal.close()


async def test_requests_may_be_forbidden(crystal: RemoteCrystal, server: ProviderServer):
    with forbid_model_requests(), pytest.raises(ModelRequestForbidden):
        await crystal.invoke(CrystalRequest(ASKED))
    assert server.requests == []
