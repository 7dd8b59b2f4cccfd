"""Threads and forks: the paths through the loom."""

from __future__ import annotations

import pytest

from branches.agents import AGENTS
from branches.agents.loom import Loom, UnknownTurn, Weaver, find_turn, read_loom
from branches.agents.naming import gate_call_id, turn_id
from journals import EntryRegistry, Journal, MemoryStore, Store
from tests.branches.agents.loom.story import Story, call


async def forked(store: Store | None = None) -> tuple[Story, Story]:
    """A thread of three turns, and a fork of it behind the first."""
    story = await Story.begin(store)
    await story.prompt("original intent")
    await story.cast()
    await story.calls(1, "A")
    position = (await story.records())[-1].position
    await story.calls(2, "B")
    await story.says(3, call("done", answer="original"))
    await story.ends("original")
    fork = story.in_session("fork")
    await fork.forked("s", story.run, 1, position)
    await fork.prompt("go on differently")
    await fork.cast()
    await fork.says(1, call("done", answer="forked"))
    await fork.ends("forked")
    return story, fork


def path(loom: Loom, number: int) -> list[str]:
    return [turn.id for turn in loom.thread(number).turns]


async def test_a_fork_and_its_original_are_threads_of_one_loom(store: Store) -> None:
    story, fork = await forked(store)
    loom = await read_loom(story.journal, "fork")
    one, two, three = (turn_id(story.run, number) for number in (1, 2, 3))
    assert len(loom.threads) == 2
    assert path(loom, 0) == [one, two, three]
    assert path(loom, 1) == [one, turn_id(fork.run, 1)]
    assert [thread.result for thread in loom.threads] == ["original", "forked"]
    assert [thread.intents for thread in loom.threads] == [
        ("original intent",),
        ("original intent", "go on differently"),
    ]
    own = loom.thread(1).own
    assert [(turn.parent_id, turn.entity_id, turn.sequence) for turn in own] == [(one, "entity-fork", 1)]
    assert [thread.session for thread in loom.threads] == ["s", "fork"]


async def test_the_original_does_not_know_its_forks_unless_it_looks_for_them(store: Store) -> None:
    story, _ = await forked(store)
    assert len((await read_loom(story.journal, "s")).threads) == 1
    assert len((await read_loom(story.journal, "s", forks=True)).threads) == 2
    assert (await read_loom(story.journal)) == await read_loom(story.journal, "fork")


async def test_the_original_goes_on_untouched_beside_its_fork() -> None:
    story, fork = await forked()
    before = await read_loom(story.journal, "s")
    await story.prompt("and now?")
    await story.ends_by_text(1, "more")
    after = await read_loom(story.journal, "fork")
    assert after.turns[: len(before)] == before.turns
    assert path(after, 0) == [*(turn.id for turn in before.turns), turn_id(story.run, 1)]
    assert path(after, 1) == [before.turns[0].id, turn_id(fork.run, 1)]


async def test_a_fork_from_the_last_turn_leaves_the_original_a_thread_of_its_own() -> None:
    story, _ = await forked()
    other = story.in_session("other")
    await other.forked("s", story.run, 3, (await story.records())[-1].position)
    await other.prompt("another end")
    await other.ends_by_text(1, "other")
    loom = await read_loom(story.journal)
    assert [thread.result for thread in loom.threads] == ["original", "forked", "other"]
    assert [len(thread) for thread in loom.threads] == [3, 2, 4]


async def test_a_fork_of_a_fork_has_all_that_came_before() -> None:
    story, fork = await forked()
    second = story.in_session("second")
    await second.forked("fork", fork.run, 1, (await story.records())[-1].position)
    await second.prompt("once more")
    await second.ends_by_text(1, "thrice")
    loom = await read_loom(story.journal, "second")
    assert path(loom, 2) == [turn_id(story.run, 1), turn_id(fork.run, 1), turn_id(second.run, 1)]
    assert len((await read_loom(story.journal, "s", forks=True)).threads) == 3


async def test_a_fork_in_the_middle_of_a_delegation_hangs_below_the_part_that_was() -> None:
    story = await Story.begin()
    await story.prompt("go")
    await story.cast()
    closed = await story.says(1, call("call_agent", intent="a"))
    position = (await story.records())[-1].position
    child = await story.summons(gate_call_id(story.run, 1, 0), "a")
    await story.calls(1, "x", run=child)
    await story.child_returns(child, "done")
    after = (await story.records())[-1].position
    for name, where in (("early", position), ("late", after)):
        fork = story.in_session(name)
        await fork.forked("s", story.run, 1, where)
        await fork.prompt(f"go {name}")
        await fork.ends_by_text(1, name)
    loom = await read_loom(story.journal)
    continued = loom.turns[2].id
    assert [thread.turns[-2].id for thread in loom.threads[1:]] == [closed, continued]


async def test_a_fork_whose_original_is_not_there_stands_alone() -> None:
    story = await Story.begin()
    await story.forked("elsewhere", "run", 4, 17)
    await story.prompt("go")
    await story.ends_by_text(1, "ok")
    loom = await read_loom(story.journal, "s")
    assert loom.turns[0].parent_id == turn_id("run", 4)
    assert [len(thread) for thread in loom.threads] == [1]


async def test_an_imported_journal_gives_the_same_loom() -> None:
    """Its positions are others, also those that a fork names."""
    story, _ = await forked()
    other = await MemoryStore(clock=story.clock.now).open("agents", AGENTS.registry())
    stray = story.in_session("stray")
    stray.journal = other
    await stray.prompt("something else")
    for record in await story.records():
        await other.import_record(record)
    assert await read_loom(other, "fork") == await read_loom(story.journal, "fork")


async def test_what_cannot_be_read_is_named_and_passed_over() -> None:
    clock_and_store = await Story.begin()
    await clock_and_store.prompt("go")
    await clock_and_store.cast()
    await clock_and_store.ends_by_text(1, "ok")
    known = [kind for kind in AGENTS.registry().kinds if kind != "EntityCast"]
    registry = EntryRegistry([AGENTS.registry().type_of(kind) for kind in known])
    store = MemoryStore()
    journal: Journal = await store.open("agents", AGENTS.registry())
    for record in await clock_and_store.records():
        await journal.import_record(record)
    loom = await read_loom(await store.open("agents", registry), "s")
    assert [turn.result for turn in loom.turns] == ["ok"]
    assert loom.unreadable == (2,)


async def test_two_casts_are_two_threads() -> None:
    story = await Story.begin()
    for name, ending in (("a", "terminated"), ("b", "truncated")):
        each = story.in_session(name)
        await each.prompt("go")
        await each.cast()
        await each.calls(1, "x")
        await each.ends("over", ending=ending, ward="max_turns" if ending == "truncated" else None)
    loom = await read_loom(story.journal)
    assert [thread.ending for thread in loom.threads] == ["terminated", "truncated"]
    assert [(thread.last.terminated, thread.last.truncated) for thread in loom.threads] == [
        (True, False),
        (False, True),
    ]
    assert len(set(loom.entity_ids)) == 2


async def test_a_turn_is_found_in_the_journal_as_in_its_loom(store: Store) -> None:
    story, _ = await forked(store)
    other = story.in_session("other")
    await other.prompt("ask somebody")
    await other.cast()
    asked = call("call_agent", intent="help")
    await other.says(1, asked)
    child = gate_call_id(other.run, 1, 0)
    await other.summons(child, "help")
    await other.says(1, run=child)
    await other.child_returns(child, "helped")
    await other.fails(2, "the service is away")
    cut_off = story.in_session("cut off")
    await cut_off.prompt("nothing comes of it")
    await cut_off.cast()
    await cut_off.ends("", ending="cancelled")

    loom = await read_loom(story.journal)
    assert {turn.session for turn in loom.turns} == {"s", "fork", "other", "cut off"}
    assert len(loom.turns) == 9
    for turn in loom.turns:
        assert await find_turn(story.journal, turn.id) == turn
        assert await find_turn(story.journal, turn.id[:8]) == turn
    for unknown in ("nothing", ""):
        with pytest.raises(UnknownTurn, match="id"):
            await find_turn(story.journal, unknown)
    first, second = sorted(turn.id for turn in loom.turns)[:2]
    alike = next(first[:length] for length in range(len(first)) if first[: length + 1] != second[: length + 1])
    with pytest.raises(UnknownTurn):
        await find_turn(story.journal, alike)


async def test_a_turn_after_a_delegation_may_have_an_id_that_begins_as_that_of_an_utterance() -> None:
    story = await Story.begin()
    await story.prompt("ask everybody")
    await story.cast()
    for number in range(1, 17):
        await story.says(number, call("call_agent", intent="help"))
        child = gate_call_id(story.run, number, 0)
        await story.summons(child, "help")
        await story.says(1, run=child)
        await story.child_returns(child, "helped")
    loom = await read_loom(story.journal)
    said = {turn_id(story.run, number) for number in range(1, 17)}
    said |= {turn_id(gate_call_id(story.run, number, 0), 1) for number in range(1, 17)}
    ids = [turn.id for turn in loom.turns]
    assert len(ids) == len(said) + 16
    beginnings = {id[:length] for id in said for length in (1, 2, 3)}
    shared = [
        each
        for each in beginnings
        if sum(id.startswith(each) for id in said) == 1 and sum(id.startswith(each) for id in ids) > 1
    ]
    assert shared
    for beginning in shared:
        with pytest.raises(UnknownTurn, match="have ids that begin with"):
            await find_turn(story.journal, beginning)


async def test_turns_are_found_by_the_beginning_of_their_ids() -> None:
    story, _ = await forked()
    loom = await read_loom(story.journal)
    turn = loom.turns[0]
    assert loom.turn(turn.id) is turn
    assert loom.turn(turn.id[:8]) is turn
    with pytest.raises(UnknownTurn, match="no turn"):
        loom.turn("nothing")
    with pytest.raises(UnknownTurn):
        loom.turn("")
    with pytest.raises(IndexError):
        loom.thread(2)


async def test_the_loom_can_be_woven_while_it_grows() -> None:
    """Fed one by one it is, after each record, the loom of what was there by then; old turns are the same objects."""
    story, _ = await forked()
    weaver, seen = Weaver(), 0
    before = weaver.loom()
    for record in await story.records():
        weaver.feed(record)
        loom = weaver.loom()
        assert [turn.id for turn in loom.turns[: len(before)]] == [turn.id for turn in before.turns]
        assert all(new is old for new, old in zip(loom.turns[:-1], before.turns[:-1], strict=False))
        seen, before = seen + 1, loom
    assert before == await read_loom(story.journal)
