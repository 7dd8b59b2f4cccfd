"""Killed anywhere, the service goes on exactly where it stopped."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from msgspec.structs import replace

from branches.agents.crystal import CrystalResponse
from branches.agents.entries import AgentToolCall
from branches.agents.internal import CrystalCalled
from branches.agents.options import AgentsOptions
from branches.agents.utterances import utterance_in
from coven.testing import ScriptedCrystal, calls, says
from journals import Entry, Journal, Record
from tests.branches.agents.bench import Bench, Playbook, options
from tests.policies.bench import DyingLog, Killed


def conversation() -> list[CrystalResponse]:
    """Two prompts: two tools and a fault over three turns, then words alone."""
    return [
        calls(("echo", {"text": "1"}), ("break", {}), ("nope", {}), text="I look.", thinking="Hm."),
        calls(("echo", {"text": "2"})),
        calls(("done", {"answer": "done"}), ("echo", {"text": "never"})),
        says("and words"),
    ]


async def hold(
    bench: Bench, crystal: Any, journal: Journal | None = None, settings: AgentsOptions | None = None
) -> None:
    """Let a service run until both prompts have their responses."""
    async with bench.serve(crystal, settings, journal=journal):
        first, second = await bench.ask("first"), await bench.ask("second")
        await bench.response(first)
        await bench.response(second)


async def expected() -> tuple[list[Any], int]:
    bench, crystal = Bench(), Playbook(conversation())
    log = DyingLog((await bench.open()).log, at=0, when="")
    await hold(bench, crystal, Journal(log, (await bench.open()).registry, clock=bench.clock.now))  # type: ignore[arg-type]
    return await bench.outcome(), log.writes


def asked_once(bench_records: list[Any], asked: list[int]) -> None:
    """The crystal was asked as often as it is recorded that it was."""
    called = [r.entry for r in bench_records if isinstance(r.entry, CrystalCalled)]
    assert len(asked) <= len(called)


def is_answer(record: Record[Entry]) -> bool:
    """Whether the crystal's answer of a turn stands here."""
    return utterance_in(record) is not None


async def test_killed_at_every_write_it_ends_in_the_same_journal() -> None:
    undisturbed, writes = await expected()
    assert writes == 13
    for when in ("before", "after"):
        for at in range(1, writes + 1):
            bench, crystal = Bench(), Playbook(conversation())
            journal = await bench.open()
            dying = Journal(DyingLog(journal.log, at, when), journal.registry, clock=bench.clock.now)  # type: ignore[arg-type]
            prompts = [await bench.ask("first"), await bench.ask("second")]
            service = await bench.service(crystal, journal=dying)
            routing = asyncio.create_task(bench.route())
            with pytest.raises(Killed):
                await service.run(lambda: None)
            routing.cancel()
            recorded = sum(is_answer(r) for r in await bench.records())
            again = Playbook(conversation())
            async with bench.serve(again):
                for prompt in prompts:
                    await bench.response(prompt)
            assert all(turn >= recorded for turn in again.asked), "a recorded answer was asked for again"
            assert await bench.outcome() == undisturbed, f"killed {when} write {at}"
            asked_once(await bench.records(), crystal.asked + again.asked)


async def test_cancelled_at_every_moment_it_ends_in_the_same_journal() -> None:
    undisturbed, _ = await expected()
    moments = 0
    finished = False
    while not finished:
        bench, crystal = Bench(), Playbook(conversation())
        prompts = [await bench.ask("first"), await bench.ask("second")]
        service = await bench.service(crystal)
        routing = asyncio.create_task(bench.route())
        serving = asyncio.create_task(service.run(lambda: None))
        for _ in range(moments):
            await asyncio.sleep(0)
        finished = len(await bench.records("AgentResponse")) == len(prompts)
        for task in (serving, routing):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        recorded = sum(is_answer(r) for r in await bench.records())
        again = Playbook(conversation())
        async with bench.serve(again):
            for prompt in prompts:
                await bench.response(prompt)
        assert all(turn >= recorded for turn in again.asked)
        assert await bench.outcome() == undisturbed, f"cancelled after {moments} moments"
        moments += 1
    assert moments > 15


async def test_an_attempt_that_was_cut_off_is_asked_again_as_a_counted_attempt() -> None:
    bench, asked = Bench(), asyncio.Event()

    async def hangs(_: object) -> CrystalResponse:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with bench.serve(ScriptedCrystal([hangs])):
        prompt = await bench.ask("go")
        await asked.wait()
    async with bench.serve(ScriptedCrystal([says("Here.")])):
        assert (await bench.response(prompt)).text == "Here."
    attempts = [r.entry for r in await bench.records("CrystalCalled")]
    assert [(c.turn, c.attempt) for c in attempts if isinstance(c, CrystalCalled)] == [(1, 1), (1, 2)]


async def test_the_crystal_is_shown_after_a_restart_what_it_would_have_been_shown_without() -> None:
    script = conversation()
    straight, broken = Bench(), Bench()
    one = ScriptedCrystal(script)
    async with straight.serve(one):
        await straight.talk("first")
        await straight.talk("second")
    first, second = ScriptedCrystal(script[:3]), ScriptedCrystal(script[3:])
    async with broken.serve(first):
        await broken.talk("first")
    async with broken.serve(second):
        await broken.talk("second")
    assert list(second.requests[-1].messages) == list(one.requests[-1].messages)
    digests = [
        [c.entry.context for c in await bench.records("CrystalCalled") if isinstance(c.entry, CrystalCalled)]
        for bench in (straight, broken)
    ]
    assert digests[0] == digests[1]


async def test_the_deadline_of_a_call_counts_from_its_record_also_after_a_restart() -> None:
    bench, settings = Bench(), options(tool_timeout_s=60)
    async with bench.serve(ScriptedCrystal([calls(("silent", {}))]), settings):
        prompt = await bench.ask("go")
        await bench.wait("AgentToolCall")
        bench.clock.advance(45)
    async with bench.serve(ScriptedCrystal([says("It is silent.")]), settings):
        await bench.clock.until_pending()
        bench.clock.advance(15)
        assert (await bench.response(prompt)).text == "It is silent."


async def test_an_answer_that_came_home_while_nobody_was_there_is_found() -> None:
    bench, crystal = Bench(), ScriptedCrystal([calls(("echo", {"text": "a"})), says("It says a.")])
    async with bench.serve(crystal, routed=False):
        prompt = await bench.ask("go")
        call = await bench.wait("AgentToolCall")
    await bench.answer(call, "a")
    async with bench.serve(crystal, routed=False):
        assert (await bench.response(prompt)).text == "It says a."
    assert len(crystal.requests) == 2


async def test_an_open_episode_keeps_the_call_that_it_began_under_and_the_next_one_has_the_new_one() -> None:
    bench = Bench()
    before, after = options(system_prompt="Before."), options(system_prompt="After.", gates=["done"])
    async with bench.serve(ScriptedCrystal([calls(("echo", {"text": "a"}))]), before, routed=False):
        prompt = await bench.ask("go")
        await bench.wait("AgentToolCall")
    crystal = ScriptedCrystal([says("one"), says("two")])
    async with bench.serve(crystal, after):
        await bench.response(prompt)
        await bench.talk("again")
    first, second = crystal.requests
    assert (first.messages[0].content, len(first.tools)) == ("Before.", 4)
    assert (second.messages[0].content, len(second.tools)) == ("After.", 1)
    assert [m.role for m in second.messages] == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert len(await bench.records("EntityCast")) == 2


async def test_a_journal_that_this_program_would_not_have_written_fails_the_episode_and_not_the_conversation() -> None:
    bench, forged = Bench(), Bench()
    async with bench.serve(ScriptedCrystal([calls(("echo", {"text": "a"}))]), routed=False):
        prompt = await bench.ask("go")
        await bench.wait("AgentToolCall")
    for record in await bench.records():
        entry = record.entry
        if isinstance(entry, AgentToolCall) and entry.said is not None:
            entry = replace(entry, said=replace(entry.said, tool_calls=calls(("echo", {"text": "b"})).tool_calls))
        await forged.copy(replace(record, entry=entry))
    async with forged.serve(ScriptedCrystal([says("I am still here.")])):
        response = await forged.response(prompt)
        assert response.ending == "failed"
        assert "program has changed" in response.text
        assert (await forged.talk("hello?")).text == "I am still here."
