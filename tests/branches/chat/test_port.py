"""The port: what a leaf is told of what was recorded."""

from __future__ import annotations

import msgspec

from branches.chat import CHAT, ChatAfferent
from branches.chat.port import Port
from branches.claims import Claims
from coven.testing import ManualClock
from journals import MemoryStore


async def test_what_was_taken_since_a_time_is_told_with_what_of_it_waits():
    clock = ManualClock()
    journal = await MemoryStore(clock=clock.now).open("chat", CHAT.registry())
    port = Port("chat", journal, Claims(journal, "test"), forks_routed=True)
    await port.receive("room", "ada", "long ago", "1")
    clock.advance(10)
    since = clock.now()
    said = await port.receive("room", "ada", "lately", "2")
    await port.answer("hall", "q", "yes", "bob", "3")
    taken = await port.taken_since(since)
    assert [number in taken for number in "123"] == [False, True, True]
    assert (taken.conversations, taken.waiting) == ({"room", "hall"}, [said])


async def test_what_was_imported_hides_nothing_of_what_was_said_before_it_came():
    clock = ManualClock()
    journal = await MemoryStore(clock=clock.now).open("chat", CHAT.registry())
    port = Port("chat", journal, Claims(journal, "test"), forks_routed=True)
    since = clock.now()
    said = await port.receive("room", "ada", "lately", "1")
    old = msgspec.structs.replace(said, id="old", entry=ChatAfferent(sender="eve", text="years ago"), time=since - 1000)
    await journal.import_record(old)
    taken = await port.taken_since(since)
    assert "1" in taken
    assert taken.waiting == [said]
