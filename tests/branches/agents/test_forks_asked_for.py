"""A conversation that goes on from another one, asked for by an entry: as that was then, for good, and once."""

from __future__ import annotations

import asyncio

import pytest

from branches.agents.crystal import CrystalRequest, CrystalResponse
from branches.agents.entries import AgentFork
from branches.agents.forking import fork
from branches.agents.loom import read_loom
from coven.testing import says
from journals import Entry, Journal, Record, derive_id
from tests.branches.agents.bench import Bench
from tests.policies.bench import DyingLog, Killed


class Memory:
    """Says all that it was ever asked; `holding` keeps it from answering one intent."""

    def __init__(self, holding: str | None = None) -> None:
        self.holding, self.held, self.let_go = holding, asyncio.Event(), asyncio.Event()

    async def invoke(self, request: CrystalRequest, on_text: object = None) -> CrystalResponse:
        asked = [message.content or "" for message in request.messages if message.role == "user"]
        if asked[-1] == self.holding:
            self.held.set()
            await self.let_go.wait()
        return says(" ".join(asked))


async def ask_fork(bench: Bench, session: str, parent: str, *without: str, of: str | None = None) -> Record[Entry]:
    """As a route does it. `without` are the texts of prompts of the session `of`."""
    ids = tuple(f"asked-{derive_id('prompt', of or parent, text)}" for text in without)
    journal = await bench.open()
    return (await journal.append(AgentFork(parent=parent, without=ids), session=session)).record


async def remembers(bench: Bench, text: str, session: str) -> str:
    return (await bench.talk(text, session)).text


async def test_it_knows_what_was_said_until_then_and_neither_knows_what_is_said_in_the_other() -> None:
    bench = Bench()
    async with bench.serve(Memory()):
        assert await remembers(bench, "a", "s") == "a"
        assert await remembers(bench, "b", "s") == "a b"
        await ask_fork(bench, "f", "s")
        assert await remembers(bench, "c", "s") == "a b c"
        assert await remembers(bench, "x", "f") == "a b x"
        assert await remembers(bench, "d", "s") == "a b c d"
    async with bench.serve(Memory()):
        assert await remembers(bench, "y", "f") == "a b x y"
    assert len(await bench.records("EntityForked")) == 1
    threads = (await read_loom(await bench.open(), "f")).threads
    assert [thread.intents for thread in threads] == [("a", "b", "c", "d"), ("a", "b", "x", "y")]


async def test_prompts_that_are_taken_back_never_were() -> None:
    bench = Bench()
    async with bench.serve(Memory()):
        for text in "abc":
            await bench.talk(text)
        await ask_fork(bench, "f", "s", "b", "c")
        assert await remembers(bench, "x", "f") == "a x"
        await ask_fork(bench, "g", "s", "a", "b", "c")
        assert await remembers(bench, "x", "g") == "x"
        await ask_fork(bench, "h", "nobody")
        assert await remembers(bench, "x", "h") == "x"


async def test_a_fork_of_a_fork_goes_back_as_far_as_one_likes() -> None:
    bench = Bench()
    async with bench.serve(Memory()):
        for text in "abc":
            await bench.talk(text)
        await ask_fork(bench, "f", "s", "c")
        assert await remembers(bench, "x", "f") == "a b x"
        await ask_fork(bench, "g", "f")
        assert await remembers(bench, "y", "g") == "a b x y"
        await ask_fork(bench, "h", "f", "b", of="s")
        assert await remembers(bench, "y", "h") == "a y"
        await ask_fork(bench, "silent", "f", "x")
        await ask_fork(bench, "i", "silent")
        assert await remembers(bench, "y", "i") == "a b y"
        await ask_fork(bench, "j", "silent", "b", of="s")
        assert await remembers(bench, "y", "j") == "a y"
        await fork(await bench.open(), "s", 1, "k")
        await ask_fork(bench, "l", "k")
        assert await remembers(bench, "y", "l") == "a b y"


async def test_what_is_not_answered_yet_is_no_part_of_it() -> None:
    bench, crystal = Bench(), Memory(holding="b")
    async with bench.serve(crystal):
        await bench.talk("a")
        slow = await bench.ask("b")
        await crystal.held.wait()
        await ask_fork(bench, "f", "s")
        crystal.let_go.set()
        assert (await bench.response(slow)).text == "a b"
        assert await remembers(bench, "x", "f") == "a x"


async def test_a_session_in_which_something_was_asked_stays_what_it_is() -> None:
    bench = Bench()
    async with bench.serve(Memory()):
        await bench.talk("a")
        await bench.talk("x", "f")
        await ask_fork(bench, "f", "s")
        assert await remembers(bench, "y", "f") == "x y"
    async with bench.serve(Memory()):
        assert await remembers(bench, "z", "f") == "x y z"


async def begun() -> tuple[Bench, list[Record[Entry]]]:
    """A fork with two prompts that wait, in a journal that nobody serves any more."""
    bench = Bench()
    async with bench.serve(Memory()):
        await bench.talk("a")
    await ask_fork(bench, "f", "s")
    return bench, [await bench.ask(text, "f") for text in ("x", "y")]


async def dying(bench: Bench, at: int, when: str) -> tuple[Journal, DyingLog]:
    journal = await bench.open()
    log = DyingLog(journal.log, at, when)
    return Journal(log, journal.registry, clock=bench.clock.now), log  # type: ignore[arg-type]


async def test_killed_at_every_write_it_happens_once() -> None:
    bench, prompts = await begun()
    journal, log = await dying(bench, 0, "")
    async with bench.serve(Memory(), journal=journal):
        assert [(await bench.response(prompt)).text for prompt in prompts] == ["a x", "a x y"]
    assert log.writes >= 6
    for when in ("before", "after"):
        for at in range(1, log.writes + 1):
            bench, prompts = await begun()
            journal, _ = await dying(bench, at, when)
            with pytest.raises(Killed):
                await (await bench.service(Memory(), journal=journal)).run(lambda: None)
            async with bench.serve(Memory()):
                assert [(await bench.response(prompt)).text for prompt in prompts] == ["a x", "a x y"]
            assert len(await bench.records("EntityForked")) == 1
