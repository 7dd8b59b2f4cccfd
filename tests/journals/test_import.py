"""Importing records: as they were, marked, and once."""

from __future__ import annotations

import pytest

from journals import Entry, EntryRegistry, IdConflict, Lane, MemoryStore, Record, Store, Unreadable


class Note(Entry, frozen=True, kw_only=True):
    text: str


REGISTRY = EntryRegistry([Note])


async def a_record(*registries: EntryRegistry, text: str = "hi") -> Record[Entry]:
    """A record of another coven, read by who knows its kind or does not."""
    store = MemoryStore(clock=lambda: 100.0)
    journal = await store.open("notes", REGISTRY)
    await journal.append(Note(text=text), session="s", id="n1", correlation_id="c", origin="chat", lane=Lane.OUT)
    record = await (await store.open("notes", *registries or (REGISTRY,))).get(1)
    assert record is not None
    return record


async def test_an_imported_record_keeps_all_but_its_position_and_is_marked(store: Store):
    journal = await store.open("notes", REGISTRY)
    await journal.append(Note(text="before"), session="s")
    written, created = await journal.import_record(await a_record())
    (_, read) = [record async for record in journal.read()]
    assert created
    assert written == read
    assert (read.id, read.time, read.lane, read.correlation_id, read.origin) == ("n1", 100.0, Lane.OUT, "c", "chat")
    assert (read.entry, read.imported) == (Note(text="hi"), True)


async def test_importing_again_writes_nothing(store: Store):
    journal = await store.open("notes", REGISTRY)
    first = await journal.import_record(await a_record())
    again = await journal.import_record(await a_record())
    assert (first.created, again.created) == (True, False)
    assert again.record.position == first.record.position


async def test_another_record_of_the_same_id_is_refused(store: Store):
    journal = await store.open("notes", REGISTRY)
    await journal.import_record(await a_record())
    with pytest.raises(IdConflict):
        await journal.import_record(await a_record(text="other"))


async def test_what_cannot_be_decoded_is_imported_as_it_came_and_read_by_who_knows_it(store: Store):
    stranger = await store.open("notes", EntryRegistry())
    record = await a_record(EntryRegistry())
    assert isinstance(record.entry, Unreadable)
    written, _ = await stranger.import_record(record)
    assert (written.kind, written.version) == ("Note", 1)
    read = await (await store.open("notes", REGISTRY)).get(written.position)
    assert read is not None
    assert (read.kind, read.entry) == ("Note", Note(text="hi"))
