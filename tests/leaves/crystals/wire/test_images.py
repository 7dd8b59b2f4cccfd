"""Images in the form of each provider, and what is said of those that a model is not shown."""

from __future__ import annotations

import base64

import msgspec
import pytest

from branches.agents.crystal import (
    CrystalRequest,
    Message,
)
from branches.attachment import Attachment
from coven.testing.providers import ProviderServer, Reply
from leaves.crystals._remote import RemoteCrystal
from tests.leaves.crystals.providers import PROVIDERS, Provider
from tests.leaves.crystals.wire.conversation import ASKED, TOOLS, WIRE, ask, then

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
