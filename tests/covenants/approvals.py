"""What tests of routes that need an approval have in common: two such routes, and the person who is asked."""

from __future__ import annotations

import asyncio
from typing import Any

from branches.chat.entries import ChatAnswer, ChatQuestion
from covenants.redrive import redrive
from covenants.routing import Approval
from journals import Record
from tests.covenants.world import Pong, TestRoute, World, numbers, read_letters

ASKED = Approval("c")
ROUTE = TestRoute(approval=ASKED)
SIGNED = TestRoute(approval=Approval("c", approvers=("ada", "bob")))


async def questions(world: World, count: int) -> list[Record[ChatQuestion]]:
    """The first questions of the chat, once there are so many."""
    journal = await world.open("c")
    found: list[Any] = []
    async with asyncio.timeout(60):
        async for record in journal.tail(0, kinds=[ChatQuestion.kind()]):
            found.append(record)
            if len(found) == count:
                return found
    raise AssertionError


async def answer(world: World, question: Record[ChatQuestion], text: str = "yes", by: str = "ada", **more: str) -> str:
    """What a person says to a question; gives the id of the answer."""
    entry = ChatAnswer(correlation_id=question.entry.correlation_id, answer=text, by=by)
    envelope = {"session": question.session, "correlation_id": entry.correlation_id, "origin": "c", **more}
    return (await (await world.open("c")).append(entry, **envelope)).record.id  # type: ignore[arg-type]


async def ask_and_answer(world: World, text: str = "yes", by: str = "ada", number: int = 0) -> None:
    """One more record, and the answer to the question about it."""
    await world.ping(1, start=number)
    await answer(world, (await questions(world, number + 1))[number], text, by)


async def resend(world: World, route: TestRoute) -> list[str | None]:
    """Send every dead letter again; gives the problems."""
    letters = await read_letters(world, 1)
    journals = {name: await world.open(name) for name in "abc"}
    return [(await redrive(letter, [route], journals, await world.dead_letters())).problem for letter in letters]


async def written(world: World) -> list[int]:
    """What stands in the target once everything is carried: a last record passes behind everything else."""
    count = len([record async for record in (await world.open("c")).read(kinds=[ChatQuestion.kind()])])
    await world.ping(1, start=1000)
    await answer(world, (await questions(world, count + 1))[count])
    target = await world.open("b")
    await target.wait_for(lambda record: record.entry == Pong(number=1000), timeout=60)
    *rest, _ = numbers([record async for record in target.read()])
    return rest
