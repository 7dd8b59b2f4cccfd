"""A conversation with each provider: with the loopback server, and with `COVEN_LIVE=1` with the real services.

Real ones are asked where their keys are set, and cost a fraction of a cent.
"""

from __future__ import annotations

import pytest

from branches.agents.crystal import CrystalRequest, Message, Sampling, validate
from branches.agents.gates import GateDefinition
from branches.agents.permission import VARIABLE
from coven.testing.providers import ProviderServer, Reply
from leaves.crystals._remote import RemoteCrystal
from tests.leaves.crystals.providers import LIVE, Provider

WEATHER = GateDefinition(
    name="town.weather",
    description="The weather of a town.",
    parameters={"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]},
)
ASKED = (
    Message("system", "Use the tool for weather. Answer in one short sentence."),
    Message("user", "How is the weather in Ulm and in Bern? Ask for both at once."),
)


async def converse(crystal: RemoteCrystal) -> None:
    """Calls, their results, an answer to them, and one that must be a call."""
    heard: list[str] = []
    messages, sampling = ASKED, Sampling(max_tokens=4000)
    for _ in range(4):
        request = CrystalRequest(messages, (WEATHER,), sampling=sampling)
        response = validate(await crystal.invoke(request, heard.append), request)
        said = Message("assistant", response.content, response.tool_calls, model=response.model, opaque=response.opaque)
        messages = (*messages, said, *(Message("tool", "rain", tool_call_id=c.id) for c in response.tool_calls))
        if not response.tool_calls:
            break
    assert messages[-1].role == "assistant"
    assert "rain" in (messages[-1].content or "").lower()
    assert (messages[-1].content or "") in "".join(heard)
    again = (*messages, Message("user", "And in Rome?"))
    required = CrystalRequest(again, (WEATHER,), "required", sampling)
    response = validate(await crystal.invoke(required), required)
    assert response.tool_calls[0].gate == "town.weather"
    assert response.usage.completion > 0


async def test_with_the_loopback_server(provider: Provider, server: ProviderServer):
    calls = (("town_weather", '{"town": "Ulm"}'), ("town_weather", '{"town": "Bern"}'))
    server.replies = [
        Reply(thinking="Both.", calls=calls, completion_tokens=9),
        Reply(text="Rain in both.", completion_tokens=4),
        Reply(calls=(("town_weather", '{"town": "Rome"}'),), completion_tokens=5),
    ]
    crystal = provider.make(server.url)
    await converse(crystal)
    await crystal.close()
    assert server.refused == []


@pytest.mark.parametrize("live", LIVE, ids=lambda each: each.name)
async def test_with_the_real_service(live: Provider, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    crystal = live.make(None)
    await converse(crystal)
    await crystal.close()
