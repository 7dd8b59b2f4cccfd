"""What comes in is handled in order within its place, and places do not wait for each other."""

from __future__ import annotations

import asyncio

from branches.chat.inbox import Inbox


async def test_a_place_waits_for_its_own_and_for_no_other():
    gate, handled, all_handled = asyncio.Event(), [], asyncio.Event()

    async def handle(item: str) -> None:
        if item == "a1":
            await gate.wait()
        handled.append(item)
        if item == "b1":
            gate.set()
        if len(handled) == 3:
            all_handled.set()

    async with asyncio.TaskGroup() as tasks:
        inbox = Inbox(tasks, handle)
        for item in ("a1", "a2", "b1"):
            assert inbox.put(item[0], item)
        assert repr(inbox) == "<Inbox 3 items in 2 places>"
        assert (inbox.waiting("a"), inbox.waiting("c")) == (("a1", "a2"), ())
        await all_handled.wait()
    assert handled == ["b1", "a1", "a2"]


async def test_what_comes_again_under_its_id_is_left_out():
    handled: list[int] = []

    async def handle(item: int) -> None:
        handled.append(item)

    async with asyncio.TaskGroup() as tasks:
        inbox = Inbox(tasks, handle)
        assert inbox.put("room", 1, "id")
        assert not inbox.put("room", 2, "id")
        assert inbox.put("room", 3, "other")
    assert handled == [1, 3]


async def test_what_is_found_elsewhere_counts_as_come():
    async with asyncio.TaskGroup() as tasks:
        handled: list[str] = []

        async def handle(item: str) -> None:
            handled.append(item)

        inbox = Inbox(tasks, handle)
        assert inbox.new("m-1")
        assert not inbox.put("kitchen", "again", "m-1")
        assert inbox.put("kitchen", "other", "m-2")
        assert not inbox.new("m-2")
    assert handled == ["other"]
