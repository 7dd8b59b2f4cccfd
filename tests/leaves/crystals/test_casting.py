"""A crystal in a cast: what its provider wants back goes through the journal, also over a fork's and a restart's."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import structs

from branches.agents.circle import circle
from branches.agents.folding import Folding
from branches.agents.retrying import Retrying
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


async def test_a_conversation_that_is_folded_and_one_that_is_taken_over_in_a_call(
    provider: Provider, server: ProviderServer
):
    """What is left of the turns is a transcript that the provider takes, also where their thoughts were signed."""
    store, folding = MemoryStore(), Folding(trigger_after_turns=3, keep_turns=1)
    server.replies = [READS, Reply(text="It says a.")] * 4
    crystal = provider.make(server.url)
    folded = structs.replace(cantrip(crystal), folding=folding)
    async with invoke(folded, store=store, session="s") as entity:
        for number in range(3):
            assert (await entity.ask(f"read a, {number}")).text == "It says a."
    async with invoke(folded, store=store, session="s") as entity:
        assert (await entity.ask("read a again")).text == "It says a."
    assert server.refused == []
    assert "folded: gates called" in str(server.requests[-1].body)
    await crystal.close()


async def test_a_conversation_goes_on_behind_a_call_that_was_cancelled_or_cut_off(
    provider: Provider, server: ProviderServer
):
    called, store = asyncio.Event(), MemoryStore()

    async def hang() -> str:
        """Hang."""
        called.set()
        await asyncio.Event().wait()
        raise AssertionError

    crystal = provider.make(server.url)
    made = Cantrip(crystal, Call(system_prompt="Be brief."), circle(["done", gate(hang)], [Ward(max_turns=9)]))
    server.replies = [
        Reply(thinking="Hm.", calls=(("hang", "{}"), ("hang", "{}"))),
        Reply(text="Where were we?"),
        Reply(thinking="Hm.", calls=(("hang", "{}"),)),
        Reply(text="It may have happened."),
        Reply(text="Good."),
    ]
    async with invoke(made, store=store, session="s") as entity:
        prompt = await entity.send("hang")
        await called.wait()
        await entity.cancel(prompt)
        assert (await entity.ended(prompt)).ending == "cancelled"
        assert (await entity.ask("go on")).text == "Where were we?"
        called.clear()
        prompt = await entity.send("hang once more")
        await called.wait()
    async with invoke(made, store=store, session="s") as entity:
        assert (await entity.ended(prompt)).text == "It may have happened."
        assert (await entity.ask("go on")).text == "Good."
    assert server.refused == []
    await crystal.close()


@pytest.mark.parametrize(("status", "asked"), [(429, 2), (503, 2), (400, 1), (401, 1), (403, 1), (404, 1)])
async def test_what_may_pass_is_asked_again_and_what_cannot_is_not(
    provider: Provider, server: ProviderServer, status: int, asked: int
):
    server.replies = [Reply(status=status, message="Not now.", headers={"retry-after": "0"}), Reply(text="Now.")]
    crystal = provider.make(server.url)
    retry = Retrying(base_delay_s=0.001, max_delay_s=0.001)
    ended = await cast(structs.replace(cantrip(crystal), retry=retry), "go")
    assert len(server.requests) == asked
    assert (ended.ending, ended.turns) == (("terminated", 1) if asked == 2 else ("failed", 0))
    await crystal.close()
