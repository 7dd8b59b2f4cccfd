"""What is sent: options, the beginning that a provider keeps, and nothing where that is forbidden."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from branches.agents.crystal import (
    CrystalRequest,
    Sampling,
)
from branches.agents.permission import ModelRequestForbidden
from coven.testing import forbid_model_requests
from coven.testing.providers import ProviderServer, Reply
from leaves.crystals._remote import RemoteCrystal
from tests.leaves.crystals.providers import OPENROUTER, Provider
from tests.leaves.crystals.wire.conversation import ASKED, TOOLS, WIRE, ask, then


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
