"""How a reading asks: all that comes is asked for, what the reader wrote itself in bunches, the others' at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journals import JetStreamStore, Journal
from journals._jetstream._pace import ALONE, Pace
from journals._jetstream._reading import Reading
from tests.journals.kinds import Said, registry


class Server:
    """A stream, what it is asked for, and what it has sent; acknowledgements and deliveries come in any order."""

    def __init__(self) -> None:
        self.pace = Pace(0)
        self.owners: list[str] = []
        self.acknowledged = self.handed_on = self.sent = self.asked = 0
        self.strange: list[int] = []

    def write(self, owner: str) -> None:
        self.owners.append(owner)

    def acknowledge(self) -> None:
        """The next of the reader's own writes is acknowledged."""
        while self.acknowledged < len(self.owners):
            self.acknowledged += 1
            if self.owners[self.acknowledged - 1] == "mine":
                known = self.acknowledged == self.handed_on + 1
                self.pace.wrote(self.acknowledged, self.acknowledged, known=known)
                if known:
                    self.handed_on = self.acknowledged
                return

    def ask(self) -> None:
        self.asked += self.pace.wanted()

    def deliver(self) -> None:
        if self.asked and self.sent < len(self.owners):
            self.asked, self.sent = self.asked - 1, self.sent + 1
            if self.pace.came(self.sent, len(self.owners) - self.sent):
                self.strange.append(self.sent)
                self.handed_on = max(self.handed_on, self.sent)


STEPS = st.lists(st.sampled_from(["mine", "mine", "others", "acknowledge", "deliver", "ask"]), max_size=400)


@given(STEPS, st.integers(0, 200))
def test_nothing_is_given_out_twice_and_nothing_stays_away(steps: list[str], alone: int):
    server = Server()
    for step in ["mine", "acknowledge", "ask", "deliver"] * alone + steps:
        if step in ("mine", "others"):
            server.write(step)
        else:
            getattr(server, step)()
    while server.sent < len(server.owners):
        before = server.sent
        server.ask()
        server.deliver()
        assert server.sent > before, "somebody writes, and nothing is asked for"
    assert server.strange == sorted(set(server.strange))
    others = [position for position, owner in enumerate(server.owners, 1) if owner == "others"]
    assert set(others) <= set(server.strange), "what others wrote is always given out"
    assert server.asked == server.pace.under_way


def test_a_reading_is_alone_when_it_has_met_nobody_else_for_a_while():
    server = Server()
    for number in range(ALONE):
        assert not server.pace.is_alone, number
        for step in ("mine", "acknowledge", "ask", "deliver"):
            server.write(step) if step == "mine" else getattr(server, step)()
    assert server.pace.is_alone
    assert server.strange == []


def test_a_reading_that_is_alone_asks_for_all_that_it_knows_and_one_more():
    pace = Pace(0)
    pace.wrote(1, ALONE, known=True)
    assert pace.wanted() == ALONE
    for position in range(1, ALONE + 1):
        assert not pace.came(position, 0)
    assert pace.is_alone
    assert pace.wanted() == 1
    assert pace.wanted() == 0, "one request waits, and is enough"
    pace.wrote(ALONE + 1, ALONE + 30, known=True)
    assert not pace.came(ALONE + 1, 29)
    assert pace.wanted() == 30, "the 29 that have gathered, and whatever comes next"


def test_what_came_before_its_acknowledgement_was_no_stranger():
    pace = Pace(0)
    pace.wanted()
    for position in range(1, ALONE + 10):
        assert pace.came(position, 0)
        pace.wrote(position, position, known=False)
    assert pace.is_alone
    assert pace.came(ALONE + 10, 0)
    assert not pace.is_alone


@pytest.fixture
async def journals(nats_server: Any, coven_name: str) -> AsyncIterator[tuple[Journal, Journal]]:
    """One journal over two connections."""

    def connect() -> Any:
        return JetStreamStore.connect(nats_server.url, coven_name, token=nats_server.token)

    async with await connect() as one, await connect() as other:
        yield await one.open("chat", registry()), await other.open("chat", registry())


async def test_what_others_write_is_heard_between_ones_own_and_in_the_quiet(journals: tuple[Journal, Journal]):
    mine, theirs = journals
    heard: list[int] = []
    async with aclosing(mine.tail()) as tail, asyncio.timeout(60):

        async def hear(upto: int) -> None:
            while not heard or heard[-1] < upto:
                heard.append((await anext(tail)).position)

        hearing = asyncio.create_task(hear(1))
        await mine.append(Said(text="first"), session="s")
        await hearing
        for round in range(3):
            for number in range(3 * ALONE):
                last = (await mine.append(Said(text="mine", number=number), session="s")).record.position
            await hear(last)
            source: Reading = mine.log._tails._source  # type: ignore[attr-defined]
            while not source._pace.is_alone:  # noqa: ASYNC110 - until the server has sent them back
                await asyncio.sleep(0)
            stranger = await theirs.append(Said(text="theirs", number=round), session="t")
            await hear(stranger.record.position)
            assert not source._pace.is_alone
    assert heard == list(range(1, heard[-1] + 1))


async def test_two_who_write_and_read_at_once_hear_all_in_order(journals: tuple[Journal, Journal]):
    count = 4 * ALONE

    async def hear(journal: Journal) -> list[int]:
        positions: list[int] = []
        async with aclosing(journal.tail()) as tail:
            async for record in tail:
                positions.append(record.position)
                if len(positions) == 3 * count:
                    return positions
        raise AssertionError

    async with asyncio.timeout(60):
        hearing = [asyncio.create_task(hear(journal)) for journal in journals]
        for session in ("a", "b", "c"):
            writer = journals[0] if session != "b" else journals[1]
            await asyncio.gather(
                *[writer.append(Said(text=session, number=n), session=f"{session}{n % 7}") for n in range(count)]
            )
        for positions in await asyncio.gather(*hearing):
            assert positions == list(range(1, 3 * count + 1))
