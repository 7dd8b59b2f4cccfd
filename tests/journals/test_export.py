"""Records as lines: out and in again, without loss."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from journals import (
    Entry,
    EntryRegistry,
    InvalidLine,
    Lane,
    MemoryStore,
    Record,
    Unreadable,
    export_line,
    parse_line,
)


class Note(Entry, frozen=True, kw_only=True):
    text: str
    data: Any = None


REGISTRY = EntryRegistry([Note])

texts = st.text(st.characters(codec="utf-8"))
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
optional = st.none() | texts
notes = st.builds(Note, text=texts, data=values)
unreadables = st.builds(
    Unreadable, of_kind=st.just("Other"), version=st.just(1), reason=st.just("?"), body=st.binary(max_size=50)
)


@st.composite
def records(draw: st.DrawFn) -> Record[Entry]:
    entry: Entry = draw(notes | unreadables)
    return Record(
        journal=draw(texts),
        position=draw(st.integers(1, 2**53)),
        id=draw(texts),
        kind=entry.of_kind if isinstance(entry, Unreadable) else entry.kind(),
        session=draw(texts),
        entry=entry,
        time=draw(st.floats(0, 1e11)),
        lane=draw(st.sampled_from(Lane)),
        correlation_id=draw(optional),
        causation_id=draw(optional),
        origin=draw(optional),
        route=draw(optional),
        hops=draw(st.integers(0, 100)),
        imported=draw(st.booleans()),
    )


def forget_reason(record: Record[Entry]) -> Record[Entry]:
    """Why something cannot be read depends on who reads it."""
    if not isinstance(record.entry, Unreadable):
        return record
    return msgspec.structs.replace(record, entry=msgspec.structs.replace(record.entry, reason=""))


@given(records())
def test_a_record_comes_back_as_it_was(record):
    line = export_line(record)
    assert b"\n" not in line
    assert forget_reason(parse_line(line, REGISTRY)) == forget_reason(record)


@given(st.binary(max_size=80))
def test_any_other_line_is_refused_and_never_raises_anything_else(line):
    with pytest.raises(InvalidLine, match="no exported record"):
        parse_line(line, REGISTRY)


def test_a_line_without_entry_is_refused():
    line = b'{"journal":"j","position":1,"id":"i","kind":"Note","session":"s","lane":"in","time":1.0}'
    with pytest.raises(InvalidLine, match="neither `entry` nor `body`"):
        parse_line(line, REGISTRY)


async def test_a_line_is_plain_json_for_other_tools():
    journal = await MemoryStore(clock=lambda: 12.5).open("notes", REGISTRY)
    record = (await journal.append(Note(text="hi"), session="s", id="n1", correlation_id="c")).record
    assert json.loads(export_line(record)) == {
        "journal": "notes",
        "position": 1,
        "id": "n1",
        "kind": "Note",
        "session": "s",
        "lane": "in",
        "time": 12.5,
        "correlation_id": "c",
        "entry": {"kind": "Note", "text": "hi", "data": None},
    }


async def test_a_record_of_an_unknown_kind_keeps_its_body_and_is_read_by_who_knows_it():
    store = MemoryStore()
    await (await store.open("notes", REGISTRY)).append(Note(text="hi"), session="s", id="n1")
    stranger = await store.open("notes", EntryRegistry())
    record = await stranger.get(1)
    assert isinstance(record.entry, Unreadable)
    assert parse_line(export_line(record), REGISTRY).entry == Note(text="hi")


async def test_an_entry_of_an_older_version_is_exported_as_what_it_is_now():
    class Old(Entry, frozen=True, kw_only=True, tag="Letter"):
        text: str

    class Letter(Entry, frozen=True, kw_only=True):
        schema_version = 2
        body: str

    registry = EntryRegistry([Letter])
    registry.upcast("Letter", 1)(lambda fields: {"body": fields["text"]})
    entry = registry.decode("Letter", 1, msgspec.json.encode(Old(text="hi")))
    record = Record(journal="j", position=1, id="i", kind="Letter", session="s", entry=entry, time=1.0, version=1)
    again = parse_line(export_line(record), registry)
    assert (again.entry, again.version) == (Letter(body="hi"), 2)
