"""Claims: taken once, used again, forgotten in order, and never taken twice by those who ask at once."""

from __future__ import annotations

import asyncio

import pytest

from branches.claims import Claims
from journals import ClaimLost, Entry, EntryRegistry, InvalidName, Journal, Store
from tests.branches.held import held


class Note(Entry, frozen=True, kw_only=True):
    """Anything."""

    text: str = ""


@pytest.fixture
async def journal(store: Store) -> Journal:
    return await store.open("notes", EntryRegistry([Note]))


async def test_a_session_is_claimed_at_its_first_touch_and_the_claim_is_used_again(journal: Journal):
    claims = Claims(journal, "me")
    first = await claims.take("a")
    assert (first.session, first.owner, first.is_first) == ("a", "me", True)
    await journal.append(Note(), session="a", expect=first)
    again = await claims.take("a")
    assert (again.position, again.is_first) == (first.position, False)
    assert await journal.end() == 2


async def test_all_who_ask_at_once_get_one_claim(journal: Journal):
    claims = Claims(journal, "me")
    taken = await asyncio.gather(*(claims.take("a") for _ in range(20)))
    assert len({claim.position for claim in taken}) == 1
    assert await journal.end() == 1


async def test_sessions_do_not_wait_for_each_other(journal: Journal):
    journal, log = held(journal, lambda message: message.subject.endswith(".slow"))
    claims = Claims(journal, "me")
    slow = asyncio.create_task(claims.take("slow"))
    await log.arrived.wait()
    assert (await claims.take("quick")).session == "quick"
    log.released.set()
    assert (await slow).session == "slow"


async def test_one_who_is_cancelled_while_he_takes_it_leaves_it_to_those_who_wait(journal: Journal):
    journal, log = held(journal, lambda message: True)
    claims = Claims(journal, "me")
    first, second = asyncio.create_task(claims.take("a")), asyncio.create_task(claims.take("a"))
    await log.arrived.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    log.released.set()
    await journal.append(Note(), session="a", expect=await second)


async def test_those_touched_last_are_kept_and_what_was_forgotten_is_taken_anew(journal: Journal):
    claims = Claims(journal, "me", limit=2)
    a, b = await claims.take("a"), await claims.take("b")
    assert (await claims.take("a")).position == a.position
    await claims.take("c")
    assert (await claims.take("a")).position == a.position
    anew = await claims.take("b")
    assert anew.position > b.position
    await journal.append(Note(), session="b", expect=anew)


async def test_a_claim_that_was_taken_away_is_ours_until_it_is_dropped(journal: Journal, store: Store):
    claims = Claims(journal, "me")
    mine = await claims.take("a")
    await (await store.open("notes", journal.registry)).claim("a", "somebody newer")
    assert (await claims.take("a")).position == mine.position
    with pytest.raises(ClaimLost):
        await journal.append(Note(), session="a", expect=mine)
    claims.drop(mine)
    anew = await claims.take("a")
    await journal.append(Note(), session="a", expect=anew)
    claims.drop(mine)  # it is not the one that we hold now
    assert (await claims.take("a")).position == anew.position


async def test_a_session_that_cannot_be_claimed_is_claimed_by_nobody(journal: Journal):
    claims = Claims(journal, "me")
    for _ in range(2):
        with pytest.raises(InvalidName):
            await claims.take("")
    assert repr(claims) == "<Claims of me on 0 sessions of notes>"


async def test_a_restart_forgets_them_all(journal: Journal):
    claims = Claims(journal, "me")
    before = await claims.take("a")
    assert repr(claims) == "<Claims of me on 1 sessions of notes>"
    claims.clear()
    assert (await claims.take("a")).position > before.position
