"""How many requests arrive in a second, and whose turn it is."""

from __future__ import annotations

import asyncio

from coven.testing import ManualClock
from leaves.chats.discord.pace import Pace, can_wait


class World:
    """Requests that arrive when the test says so."""

    def __init__(self, per_s: int) -> None:
        self.clock, self.gone, self._doors = ManualClock(), list[str](), dict[str, asyncio.Event]()
        self.pace = Pace(self.clock, per_s)

    def ask(self, name: str, *, patient: bool = False) -> asyncio.Task[None]:
        self._doors[name] = asyncio.Event()

        async def go() -> None:
            if patient:
                with can_wait():
                    await self.pace.go()
            else:
                await self.pace.go()
            self.gone.append(name)
            try:
                await self._doors[name].wait()
            finally:
                self.pace.answered()

        return asyncio.create_task(go())

    async def answer(self, *names: str) -> None:
        for name in names:
            self._doors[name].set()
        await settle()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_request_counts_until_a_second_after_its_answer():
    world = World(2)
    tasks = [world.ask(name) for name in "abcd"]
    await settle()
    assert (world.gone, repr(world.pace)) == (["a", "b"], "<Pace 0 may go, 2 wait and 0 that can>")
    world.clock.advance(5)
    await settle()
    assert world.gone == ["a", "b"]
    await world.answer("a")
    world.clock.advance(0.9)
    await settle()
    assert world.gone == ["a", "b"]
    world.clock.advance(0.1)
    await settle()
    assert world.gone == ["a", "b", "c"]
    await world.answer("b", "c", "d")
    world.clock.advance(1)
    await settle()
    assert world.gone == ["a", "b", "c", "d"]
    await asyncio.gather(*tasks)
    world.pace.close()
    assert world.clock.pending == 0


async def test_what_can_wait_waits_and_who_gives_up_takes_nobodys_place():
    world = World(1)
    tasks = {name: world.ask(name, patient=name == "typing") for name in ("first", "typing", "leaving", "answer")}
    await settle()
    tasks["leaving"].cancel()
    for name in ("first", "answer", "typing"):
        await world.answer(name)
        assert world.gone[-1] == name
        world.clock.advance(1)
        await settle()
    assert repr(world.pace) == "<Pace 1 may go, 0 wait and 0 that can>"
