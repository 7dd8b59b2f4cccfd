"""The service: many conversations at once, order within each, and what it leaves alone."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from branches.agents import AGENTS, AgentChunk, AgentResponse, AgentStreamCompleted, AgentThought
from branches.agents.crystal import CrystalRequest, CrystalResponse
from branches.agents.internal import AgentsSettled, EntityCast
from branches.agents.unanswered import SETTLED_SESSION
from branches.manifest import Direction
from coven.testing import ScriptedCrystal, ScriptExhausted, calls, finishes, says
from journals import Entry, EntryRegistry, Journal, Lane, MemoryStore, Store
from journals._log import Message
from tests.branches.agents.bench import GATES, Bench, Playbook, options
from tests.policies.bench import DyingLog


class Parrot:
    """Says what it was told last; `holding` keeps it from answering, by intent."""

    def __init__(self, *holding: str) -> None:
        self.holding = {intent: asyncio.Event() for intent in holding}
        self.heard: list[str] = []
        self.spoken_to = asyncio.Event()

    async def invoke(self, request: CrystalRequest, on_text: object = None) -> CrystalResponse:
        intent = request.messages[-1].content or ""
        self.heard.append(intent)
        self.spoken_to.set()
        if intent in self.holding:
            await self.holding[intent].wait()
        return says(f"{intent}!")


def test_the_manifest_says_what_routes_may_name() -> None:
    directions = {kind.name: kind.direction for kind in AGENTS.kinds}
    assert directions["AgentPrompt"] is Direction.REQUIRES
    assert directions["AgentToolResult"] is directions["AgentToolFault"] is Direction.ACCEPTS
    produced = {"AgentThought", "AgentResponse", "AgentChunk", "AgentStreamCompleted", "AgentToolCall", "ApprovalAsked"}
    assert {kind.name for kind in AGENTS.of(Direction.PRODUCES)} == produced
    assert {kind.__name__ for kind in (AGENTS.get("AgentToolCall") or AGENTS.kinds[0]).answers} == {
        "AgentToolResult",
        "AgentToolFault",
    }
    assert AGENTS.registry(short_lived=True).kinds == ("AgentChunk", "AgentStreamCompleted")


async def test_prompts_of_a_session_are_answered_in_order_one_after_the_other() -> None:
    bench, crystal = Bench(), Parrot("0")
    async with bench.serve(crystal):
        prompts = [await bench.ask(str(n)) for n in range(5)]
        await crystal.spoken_to.wait()
        assert crystal.heard == ["0"]
        crystal.holding["0"].set()
        assert [(await bench.response(prompt)).text for prompt in prompts] == [f"{n}!" for n in range(5)]
    assert crystal.heard == [str(n) for n in range(5)]


async def test_conversations_do_not_wait_for_each_other() -> None:
    bench, crystal = Bench(), Parrot("slow")
    async with bench.serve(crystal):
        slow = await bench.ask("slow", session="a")
        assert (await bench.talk("quick", session="b")).text == "quick!"
        crystal.holding["slow"].set()
        assert (await bench.response(slow)).text == "slow!"


async def test_a_hundred_conversations_at_once() -> None:
    bench = Bench()
    script = [calls(("echo", {"text": "a"}), ("echo", {"text": "b"})), finishes("ok")]
    async with bench.serve(Playbook(script)):
        prompts = [await bench.ask("go", session=f"s{n}") for n in range(100)]
        assert {(await bench.response(prompt)).text for prompt in prompts} == {"ok"}
    assert len(bench.routed) == len(set(bench.routed)) == 200


async def test_it_is_the_same_on_both_stores(store: Store) -> None:
    bench = Bench(store)
    script = [calls(("echo", {"text": "a"}), ("break", {}), thinking="Hm."), calls(("echo", {"text": "b"})), says("ok")]
    async with bench.serve(Playbook(script)):
        prompt = await bench.ask("go")
        await bench.wait("AgentToolCall", count=3)
    async with bench.serve(Playbook(script)):
        assert (await bench.response(prompt)).text == "ok"
    kinds = [kind for kind in await bench.kinds() if kind != "CrystalCalled"]
    calling = ["AgentToolCall", "AgentToolResult"]
    assert kinds == [
        "AgentPrompt",
        "EntityCast",
        "AgentThought",
        *calling,
        "AgentToolCall",
        "AgentToolFault",
        *calling,
        "AgentResponse",
    ]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), min_size=1, max_size=12))
async def test_whatever_the_order_of_prompts_each_session_is_answered_in_its_own(
    prompts: list[tuple[str, int]],
) -> None:
    """Each prompt comes after some moments, in a session of its choice."""
    bench = Bench()
    async with bench.serve(Parrot()):
        asked = []
        for number, (session, moments) in enumerate(prompts):
            for _ in range(moments):
                await asyncio.sleep(0)
            asked.append(await bench.ask(str(number), session=session))
        for prompt in asked:
            await bench.response(prompt)
    for session in "abc":
        texts = [
            r.entry.text for r in await bench.records() if isinstance(r.entry, AgentResponse) and r.session == session
        ]
        assert texts == [f"{n}!" for n, (where, _) in enumerate(prompts) if where == session]


async def test_a_service_claims_a_session_once_and_keeps_it() -> None:
    bench = Bench()
    log = DyingLog((await bench.open()).log, at=0, when="")
    journal = Journal(log, (await bench.open()).registry, clock=bench.clock.now)  # type: ignore[arg-type]
    async with bench.serve(Parrot(), journal=journal):
        for n in range(3):
            await bench.talk(str(n))
    # The beginning, the claim and the cast once; the crystal's call and the response, which is its answer, three times.
    assert log.writes == 3 + 3 * 2


async def test_idle_sessions_beyond_the_limit_are_forgotten_and_read_again() -> None:
    bench, crystal = Bench(), ScriptedCrystal([says("a1"), says("b1"), says("c1"), says("a2")])
    log = CountingLog((await bench.open()).log)
    journal = Journal(log, (await bench.open()).registry, clock=bench.clock.now)  # type: ignore[arg-type]
    async with bench.serve(crystal, idle_sessions=1, journal=journal):
        for session in ("a", "b", "c"):
            await bench.talk("hello", session=session)
        reads = log.reads
        await bench.talk("again", session="a")
        assert log.reads > reads
    assert [message.content for message in crystal.requests[-1].messages] == ["hello", "a1", "again"]


async def test_a_session_that_was_taken_over_is_left_alone_and_others_go_on() -> None:
    bench, crystal = Bench(), Parrot("mine")
    async with bench.serve(crystal):
        await bench.ask("mine", session="a")
        await crystal.spoken_to.wait()
        await (await bench.open()).claim("a", "another service")
        crystal.holding["mine"].set()
        assert (await bench.talk("hello", session="b")).text == "hello!"
        await bench.ask("more", session="a")
        assert (await bench.talk("hello again", session="b")).text == "hello again!"
    assert {r.session for r in await bench.records("AgentResponse")} == {"b"}
    assert "more" not in crystal.heard


async def test_a_session_that_an_older_service_takes_while_it_gives_way_is_taken_back() -> None:
    bench, crystal = Bench(), Parrot("mine")
    other = await bench.open()
    older = await other.claim(SETTLED_SESSION, "older")
    async with bench.serve(crystal):
        prompt = await bench.ask("mine", session="a")
        await crystal.spoken_to.wait()
        await other.claim("a", "older", term=older.position)
        crystal.holding["mine"].set()
        assert (await bench.response(prompt)).text == "mine!"
        assert (await bench.talk("more", session="a")).text == "more!"
    assert len(await bench.records("AgentResponse")) == 2


async def test_two_services_on_one_journal_answer_each_prompt_once() -> None:
    bench = Bench()
    async with bench.serve(Parrot(), owner="one"), bench.serve(Parrot(), owner="two", routed=False):
        for n in range(5):
            assert (await bench.talk(str(n))).text == f"{n}!"
    assert len(await bench.records("AgentResponse")) == 5


async def test_answers_that_nobody_waits_for_change_nothing() -> None:
    bench, crystal = Bench(), ScriptedCrystal([calls(("echo", {"text": "a"})), says("a"), says("b")])
    async with bench.serve(crystal):
        await bench.talk("one")
        call = await bench.wait("AgentToolCall")
        await bench.answer(call, "once more", id="again")
        await bench.talk("two")
    assert [message.content for message in crystal.requests[-1].messages] == ["one", None, "a", "a", "two"]


async def test_imported_prompts_are_history_and_not_requests() -> None:
    here, there = Bench(), Bench()
    async with there.serve(Parrot()):
        await there.talk("long ago")
    await there.ask("never answered")
    journal = await here.open()
    for record in await there.records():
        await journal.import_record(record)
    crystal = ScriptedCrystal([says("Hello.")])
    async with here.serve(crystal):
        await here.talk("now")
    assert [message.content for message in crystal.requests[0].messages] == ["long ago", "long ago!", "now"]


async def test_a_session_with_entries_of_a_newer_program_is_left_alone() -> None:
    bench = Bench()
    tomorrow = await bench.store.open("agents", EntryRegistry([_tomorrow()]))
    await tomorrow.append(_tomorrow()(soul="yes"), session="a", lane=Lane.OUT)
    async with bench.serve(Parrot()):
        await bench.ask("hello", session="a")
        assert (await bench.talk("hello", session="b")).text == "hello!"
    assert {r.session for r in await bench.records("AgentResponse")} == {"b"}


@pytest.mark.parametrize("before", [True, False])
async def test_a_prompt_that_cannot_be_read_gets_a_response_that_says_so_in_its_turn(before: bool) -> None:
    bench, crystal = Bench(), Parrot("first")
    serving = bench.serve(crystal) if not before else None
    if serving is not None:
        await serving.__aenter__()
    first = await bench.ask("first")
    journal = await bench.open()
    for id, session in (("newer", "s"), ("alone", "t")):
        headers = {"Coven-Kind": "AgentPrompt", "Coven-Id": id, "Coven-Version": "9", "Coven-Correlation": "c"}
        await journal.log.append(Message(f"in.{session}", headers, b"{}"))
    if serving is None:
        serving = bench.serve(crystal)
        await serving.__aenter__()
    await crystal.spoken_to.wait()
    last = await bench.ask("last")
    crystal.holding["first"].set()
    assert [(await bench.response(prompt)).text for prompt in (first, last)] == ["first!", "last!"]
    await bench.wait("AgentResponse", 4)
    await serving.__aexit__(None, None, None)
    responses = [r for r in await bench.records("AgentResponse") if r.causation_id in ("newer", "alone")]
    assert {(r.session, r.correlation_id, r.entry.ending) for r in responses} == {  # type: ignore[attr-defined]
        ("s", "c", "failed"),
        ("t", "c", "failed"),
    }
    assert all("upgrade Coven here" in r.entry.text for r in responses)  # type: ignore[attr-defined]
    async with bench.serve(crystal):
        assert (await bench.talk("again")).text == "again!"
    assert len(await bench.records("AgentResponse")) == 5


async def test_a_bug_in_a_crystal_fails_the_service_visibly_and_the_next_one_goes_on() -> None:
    bench = Bench()
    prompt = await bench.ask("go")
    service = await bench.service(ScriptedCrystal([]))
    with pytest.raises(ScriptExhausted, match="asked 1 times, its script has 0 answers"):
        await service.run(lambda: None)
    async with bench.serve(Parrot()):
        assert (await bench.response(prompt)).text == "go!"


async def test_a_service_may_be_run_again() -> None:
    bench = Bench()
    service = await bench.service(Parrot())
    for n in range(2):
        ready = asyncio.Event()
        running = asyncio.create_task(service.run(ready.set))
        await ready.wait()
        assert (await bench.talk(str(n))).text == f"{n}!"
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


async def test_how_far_all_is_answered_is_written_down_so_that_a_start_reads_only_the_rest() -> None:
    bench = Bench()
    async with bench.serve(Parrot(), settled_every=20):
        for n in range(30):
            await bench.talk("hello", session=f"s{n}")
    settled = [r for r in await bench.records() if isinstance(r.entry, AgentsSettled)]
    assert settled
    assert all(r.session == SETTLED_SESSION for r in settled)
    last = settled[-1].entry
    assert isinstance(last, AgentsSettled)
    answered = {r.causation_id for r in await bench.records("AgentResponse")}
    assert all(r.id in answered for r in await bench.records("AgentPrompt") if r.position <= last.position)

    reads: list[int] = []
    journal = await bench.open()
    read = journal.read

    def watched(**how: Any) -> Any:
        if how.get("session") is None:
            reads.append(how["after"])
        return read(**how)

    journal.read = watched  # type: ignore[method-assign]
    prompt = await bench.ask("one more", session="new")
    async with bench.serve(Parrot(), journal=journal):
        await bench.response(prompt)
    assert reads == [last.position]


async def test_a_prompt_that_waits_is_never_counted_as_settled() -> None:
    bench, crystal = Bench(), Parrot("wait")
    async with bench.serve(crystal, settled_every=1):
        waiting = await bench.ask("wait", session="a")
        for n in range(20):
            await bench.talk(str(n), session="b")
    marks = [r.entry.position for r in await bench.records() if isinstance(r.entry, AgentsSettled)]
    assert all(mark < waiting.position for mark in marks)
    async with bench.serve(Parrot()):
        assert (await bench.response(waiting)).text == "wait!"


async def test_another_service_that_keeps_marks_stops_neither_this_one_nor_its_marks() -> None:
    bench = Bench()
    async with bench.serve(Parrot(), settled_every=10):
        for n in range(20):
            if n == 10:
                await (await bench.open()).claim(SETTLED_SESSION, "another service")
            await bench.talk(str(n))
        await bench.wait("AgentsSettled", count=3)


async def test_prompts_of_a_session_that_was_taken_over_are_never_counted_as_settled() -> None:
    bench, crystal = Bench(), Parrot("mine")
    async with bench.serve(crystal, settled_every=1):
        mine = await bench.ask("mine", session="a")
        await crystal.spoken_to.wait()
        await (await bench.open()).claim("a", "another service")
        crystal.holding["mine"].set()
        for n in range(5):
            await bench.talk(str(n), session="b")
    marks = [r.entry.position for r in await bench.records() if isinstance(r.entry, AgentsSettled)]
    assert all(mark < mine.position for mark in marks)


async def test_a_session_that_is_read_again_is_not_claimed_again() -> None:
    bench = Bench()
    async with bench.serve(Parrot(), idle_sessions=1):
        for n in range(3):
            for session in ("a", "b", "c"):
                await bench.talk(str(n), session=session)
    # Of a journal's positions only claims are no records: one says when the service began.
    assert await (await bench.open()).end() == len(await bench.records()) + 4


async def test_text_is_streamed_to_the_chunk_journal_while_it_comes() -> None:
    bench = Bench()
    chunks = await MemoryStore().open("agents-chunks", AGENTS.registry(short_lived=True), short_lived=True)
    lines = "one\ntwo\nthree"
    async with bench.serve(ScriptedCrystal([calls(("echo", {"text": "a"})), says(lines)]), chunk_journal=chunks):
        prompt = await bench.ask("go")
        await bench.response(prompt)
        completed = await chunks.wait_for(lambda r: r.kind == "AgentStreamCompleted", timeout=60)
    records = [record async for record in chunks.read(kinds=["AgentChunk"])]
    pieces = [r.entry for r in records if isinstance(r.entry, AgentChunk)]
    assert "".join(piece.text for piece in pieces) == lines
    assert [piece.index for piece in pieces] == list(range(len(pieces)))
    assert isinstance(completed.entry, AgentStreamCompleted)
    assert {piece.stream for piece in pieces} == {completed.entry.stream}
    assert {(r.session, r.correlation_id, r.origin) for r in records} == {("s", prompt.correlation_id, "chat")}


async def test_a_thought_is_streamed_apart_from_the_text_and_ends_as_the_whole_one() -> None:
    bench = Bench()
    chunks = await MemoryStore().open("agents-chunks", AGENTS.registry(short_lived=True), short_lived=True)
    thinking, text = "They ask.\nI echo.\n\nNo more.", "one\ntwo"
    async with bench.serve(ScriptedCrystal([says(text, thinking=thinking)]), chunk_journal=chunks):
        prompt = await bench.ask("go")
        await bench.response(prompt)
        completed = 0
        async for record in chunks.tail(0):
            completed += isinstance(record.entry, AgentStreamCompleted)
            if completed == 2:
                break
    records = [record async for record in chunks.read()]
    streams = {r.entry.stream: r.entry.thought for r in records if isinstance(r.entry, AgentChunk)}
    ((thought_stream,), (text_stream,)) = ([s for s in streams if streams[s] is mark] for mark in (True, False))
    for stream, whole in ((thought_stream, thinking), (text_stream, text)):
        pieces = [r.entry for r in records if isinstance(r.entry, AgentChunk) and r.entry.stream == stream]
        assert "".join(piece.text for piece in pieces) == whole
        assert [piece.index for piece in pieces] == list(range(len(pieces)))
        assert [r.entry for r in records if getattr(r.entry, "stream", "") == stream][-1] == AgentStreamCompleted(
            stream=stream
        )
    (thought,) = await bench.records("AgentThought")
    assert thought.entry == AgentThought(sender="agents", text=thinking, stream=thought_stream)
    assert {(r.session, r.correlation_id, r.origin) for r in records} == {("s", prompt.correlation_id, "chat")}


async def test_a_thought_that_came_whole_names_no_stream() -> None:
    class Terse:
        async def invoke(self, request: CrystalRequest, on_text: object = None) -> CrystalResponse:
            return says("Yes.", thinking="Hm.")

    bench = Bench()
    chunks = await MemoryStore().open("agents-chunks", AGENTS.registry(short_lived=True), short_lived=True)
    async with bench.serve(Terse(), chunk_journal=chunks):
        await bench.response(await bench.ask("go"))
    (thought,) = await bench.records("AgentThought")
    assert thought.entry == AgentThought(sender="agents", text="Hm.")
    assert [record async for record in chunks.read()] == []


async def test_thousands_of_turns_cost_as_many_operations_each_as_the_first() -> None:
    """Writes, positions read and messages shown anew: counted, not timed."""
    bench, turns = Bench(), 3000
    log = CountingLog((await bench.open()).log)
    journal = Journal(log, (await bench.open()).registry, clock=bench.clock.now)  # type: ignore[arg-type]
    crystal = Countdown(turns)
    async with bench.serve(crystal, options(max_turns=turns + 1), journal=journal, settled_every=10**9):
        await bench.talk("count down")
    assert crystal.asked == turns + 1
    # Per turn: the crystal's call, and the gate's call with its utterance. Around: beginning, claim, cast, last turn,
    # response.
    assert log.writes == 2 * turns + 6
    assert log.reads <= 10
    (cast,) = await bench.records("EntityCast")
    assert isinstance(cast.entry, EntityCast)
    assert len(cast.entry.gates) == len(GATES) + 1


@cache
def _tomorrow() -> Any:
    class EntityCast(Entry, frozen=True, kw_only=True):
        """As a newer program writes it."""

        schema_version = 99
        soul: str

    return EntityCast


class Countdown:
    """Calls a gate so many times, then finishes; looks at nothing but how long the context is."""

    def __init__(self, turns: int) -> None:
        self._turns = turns
        self.asked = 0

    async def invoke(self, request: CrystalRequest, on_text: object = None) -> CrystalResponse:
        assert len(request.messages) == 1 + 2 * self.asked
        self.asked += 1
        return finishes("zero") if self.asked > self._turns else calls(("echo", {"text": str(self.asked)}))


class CountingLog:
    """Counts what is written and how often the log is read."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self.writes = self.reads = 0

    def __getattr__(self, name: str) -> Any:
        if name in ("read", "get", "last"):
            self.reads += 1
        return getattr(self._log, name)

    async def append(self, *args: Any) -> int:
        self.writes += 1
        return await self._log.append(*args)
