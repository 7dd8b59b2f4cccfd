"""Answers are shown while they are being written, in the order of their prompts, until they are there."""

from __future__ import annotations

import asyncio

from branches.chat import ChatChunk
from branches.chat.live import CURSOR, Shown, Writings
from coven.testing import ManualClock
from journals import Lane, Record


class Wall:
    """A place where messages are shown; each has the number of its place as its id."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.changed = asyncio.Event()

    async def begin(self, stream: str, number: int, text: str) -> int:
        self.messages.append(text)
        self.changed.set()
        return len(self.messages) - 1

    async def change(self, message: int, text: str) -> None:
        self.messages[message] = text

    async def remove(self, message: int) -> None:
        self.messages[message] = ""

    async def until(self, *messages: str) -> None:
        async with asyncio.timeout(60):
            while self.messages != list(messages):
                self.changed.clear()
                await self.changed.wait()


def chunk(prompt: str | None, text: str, index: int = 0) -> Record[ChatChunk]:
    return Record(
        journal="chat-chunks",
        position=1,
        id="id",
        kind="ChatChunk",
        session="s",
        entry=ChatChunk(stream=f"stream of {prompt}", index=index, text=text),
        time=0.0,
        lane=Lane.IN,
        correlation_id=prompt,
    )


def split(text: str) -> list[str]:
    return [f"{text}{CURSOR}"]


async def test_an_answer_is_shown_when_those_before_it_are_there():
    wall = Wall()
    async with asyncio.TaskGroup() as tasks:
        writings: Writings[int] = Writings(tasks, split, ManualClock(), 1.0)
        for prompt in ("first", "second"):
            writings.expect(prompt, "s")
        assert writings.show(chunk("second", "two"), lambda: wall)
        assert writings.show(chunk("first", "one"), lambda: wall)
        await wall.until(f"one{CURSOR}")
        assert (writings.messages, repr(writings)) == ({0}, "<Writings 1 answers being written>")
        async with writings.answering("first", "s") as shown:
            assert shown == Shown([0])
            assert not writings.show(chunk("first", "late"), lambda: wall)
            assert wall.messages == [f"one{CURSOR}"]
        await wall.until(f"one{CURSOR}", f"two{CURSOR}")
        async with writings.answering("second", "s") as shown:
            assert shown == Shown([1])


async def test_a_prompt_that_got_no_answer_holds_up_only_the_next_one():
    wall = Wall()
    async with asyncio.TaskGroup() as tasks:
        writings: Writings[int] = Writings(tasks, split, ManualClock(), 1.0)
        for prompt in ("first", "second", "third"):
            writings.expect(prompt, "s")
        writings.show(chunk("second", "two"), lambda: wall)
        async with writings.answering("second", "s") as shown:
            assert shown == Shown([])
        writings.show(chunk("third", "three"), lambda: wall)
        await wall.until(f"three{CURSOR}")
        async with writings.answering("third", "s"):
            pass


async def test_a_prompt_that_is_told_again_when_it_is_answered_is_not_waited_for():
    wall = Wall()
    async with asyncio.TaskGroup() as tasks:
        writings: Writings[int] = Writings(tasks, split, ManualClock(), 1.0)
        writings.expect("first", "s")
        async with writings.answering("first", "s"):
            pass
        for prompt in ("first", "second"):
            writings.expect(prompt, "s")
        writings.show(chunk("second", "two"), lambda: wall)
        await wall.until(f"two{CURSOR}")
        async with writings.answering("second", "s"):
            pass


async def test_while_an_answer_of_an_earlier_life_is_sent_no_other_is_shown_above_it():
    wall = Wall()
    async with asyncio.TaskGroup() as tasks:
        writings: Writings[int] = Writings(tasks, split, ManualClock(), 1.0)
        async with writings.answering("first", "s") as shown:
            assert shown == Shown([])
            for prompt in ("first", "second"):  # the platform tells both once more
                writings.expect(prompt, "s")
            writings.show(chunk("second", "two"), lambda: wall)
            assert (wall.messages, repr(writings)) == ([], "<Writings 0 answers being written>")
        await wall.until(f"two{CURSOR}")
        async with writings.answering("second", "s") as shown:
            assert shown == Shown([0])


async def test_what_nobody_asked_for_is_not_shown():
    async with asyncio.TaskGroup() as tasks:
        writings: Writings[int] = Writings(tasks, split, ManualClock(), 1.0)
        assert not writings.show(chunk("unknown", "text"), Wall)
        assert not writings.show(chunk(None, "text"), Wall)
        async with writings.answering("unknown", "s") as shown:
            assert shown == Shown([])
