"""A crystal in a cast: what its provider wants back goes through the journal, also over a fork's and a restart's."""

from __future__ import annotations

import pytest

from branches.agents.circle import circle
from branches.agents.wards import Ward
from coven import Call, Cantrip, cast, gate, invoke
from coven.looms import cost_of, dollars
from coven.testing.providers import ProviderServer, Reply
from journals import MemoryStore
from leaves.crystals.models import PRICES
from tests.leaves.crystals.providers import ANTHROPIC, GEMINI, OPENAI, Provider


def read(path: str) -> str:
    """Read a file."""
    return f"this is {path}"


def cantrip(crystal: object) -> Cantrip:
    return Cantrip(crystal, Call(system_prompt="Be brief."), circle(["done", gate(read)], [Ward(max_turns=9)]))  # type: ignore[arg-type]


READS = Reply(
    thinking="It wants a.", text="I look.", calls=(("read", '{"path": "a"}'),), prompt_tokens=1000, completion_tokens=10
)


async def test_a_turn_with_thoughts_and_calls_and_what_it_cost(provider: Provider, server: ProviderServer):
    server.replies = [READS, Reply(thinking="Good.", calls=(("done", '{"answer": "read"}'),))]
    crystal = provider.make(server.url)
    ended = await cast(cantrip(crystal), "read a")
    assert (ended.answer, server.refused) == ("read", [])
    assert [turn.model for turn in ended.loom.turns] == [crystal.model, crystal.model]
    cost = cost_of(ended.loom.turns, PRICES)
    assert (cost is not None) is (provider.name in ("anthropic", "openai", "gemini"))
    assert dollars(cost).startswith("$0.00") is (cost is not None)
    await crystal.close()


async def test_a_lasting_conversation_changes_its_provider_and_is_taken_over(server: ProviderServer):
    """Every provider checks all that it is sent: foreign ids, foreign thoughts, and its own ones that come back."""
    store, session = MemoryStore(), "talk"
    for provider in (ANTHROPIC, OPENAI, GEMINI, ANTHROPIC):
        server.replies = [READS, Reply(text="It says a."), READS, Reply(text="Still.")]
        crystal = provider.make(server.url)
        async with invoke(cantrip(crystal), store=store, session=session) as entity:
            assert (await entity.ask("read a")).text == "It says a."
            assert (await entity.ask("and again")).text == "Still."
        await crystal.close()
    assert server.refused == []
    assert len(server.requests) == 16


@pytest.mark.parametrize("provider", [ANTHROPIC, OPENAI, GEMINI], ids=lambda each: each.name, indirect=False)
async def test_a_fork_goes_on_with_the_thoughts_of_the_path(server: ProviderServer, provider: Provider):
    server.replies = [READS, Reply(text="It says a."), Reply(text="Otherwise.")]
    crystal = provider.make(server.url)
    async with invoke(cantrip(crystal)) as entity:
        await entity.ask("read a")
        loom = await entity.loom()
        fork = await entity.fork(loom.turns[-1].id)
        assert (await fork.ask("and otherwise?")).text == "Otherwise."
    assert server.refused == []
    await crystal.close()
