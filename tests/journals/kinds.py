"""Entries that the journal tests use."""

from __future__ import annotations

from typing import ClassVar

from journals import Entry, EntryRegistry


class Said(Entry, frozen=True, kw_only=True):
    text: str
    number: int = 0


class Heard(Entry, frozen=True, kw_only=True):
    schema_version: ClassVar[int] = 3

    text: str
    loudness: float = 0.5


def registry() -> EntryRegistry:
    made = EntryRegistry((Said, Heard))
    made.upcast("Heard", 1)(lambda fields: {"text": fields["words"]})
    made.upcast("Heard", 2)(lambda fields: {**fields, "loudness": 1.0})
    return made
