"""What goes into a journal (a draft) and what a reader gets (a record)."""

from __future__ import annotations

from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

import msgspec

from journals._entry import Entry

EntryT_co = TypeVar("EntryT_co", bound=Entry, covariant=True)


class Lane(StrEnum):
    """A session's two fences: what its own service writes, and what routes, leaves and commands write."""

    IN = "in"
    OUT = "out"


class Record(msgspec.Struct, Generic[EntryT_co], frozen=True, kw_only=True, gc=False):
    """One entry as it stands in its journal.

    `position` strictly increases in a journal; `time` is in seconds since the epoch, UTC; `cause` names the record
    that this one came from; `origin` is the branch instance that began the exchange; `route` is set on routed records;
    `hops` counts the passes through routes that declare a cycle.
    """

    journal: str
    position: int
    id: str
    kind: str
    session: str
    entry: EntryT_co
    time: float
    version: int = 1
    lane: Lane = Lane.IN
    correlation_id: str | None = None
    causation_id: str | None = None
    origin: str | None = None
    route: str | None = None
    hops: int = 0
    imported: bool = False


class Appended(NamedTuple):
    """What an append gives: the record, and whether this very call created it."""

    record: Record[Entry]
    created: bool


class Draft(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An entry on its way into a journal, with the envelope that its writer decides."""

    entry: Entry
    session: str
    id: str
    correlation_id: str | None = None
    causation_id: str | None = None
    origin: str | None = None
    route: str | None = None
    hops: int = 0


class Claim(NamedTuple):
    """The right to write a session's `out` lane. A newer claim takes it away.

    `is_first` says that nothing stood in that lane before it.
    """

    session: str
    owner: str
    position: int
    is_first: bool = False
