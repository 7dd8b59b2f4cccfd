"""What happened: typed, append-only journals, on NATS JetStream or in memory."""

from typing import TYPE_CHECKING, Any

from journals._cursor import RouteCursor, Routed
from journals._entry import Entry, EntryRegistry, Unreadable
from journals._errors import (
    AppendOnly,
    ClaimLost,
    FenceRefused,
    IdConflict,
    InvalidEntry,
    InvalidName,
    JournalError,
    StoreFull,
    StoreMismatch,
    StoreRefused,
    StoreUnavailable,
    Unacknowledged,
    UnknownKind,
)
from journals._ids import derive_id, random_id
from journals._journal import Clock, Journal
from journals._memory import MemoryStore
from journals._record import Appended, Claim, Draft, Lane, Record
from journals._store import Store

if TYPE_CHECKING:
    from journals._jetstream import JetStreamStore

__all__ = [
    "AppendOnly",
    "Appended",
    "Claim",
    "ClaimLost",
    "Clock",
    "Draft",
    "Entry",
    "EntryRegistry",
    "FenceRefused",
    "IdConflict",
    "InvalidEntry",
    "InvalidName",
    "JetStreamStore",
    "Journal",
    "JournalError",
    "Lane",
    "MemoryStore",
    "Record",
    "RouteCursor",
    "Routed",
    "Store",
    "StoreFull",
    "StoreMismatch",
    "StoreRefused",
    "StoreUnavailable",
    "Unacknowledged",
    "UnknownKind",
    "Unreadable",
    "derive_id",
    "random_id",
]


def __getattr__(name: str) -> Any:
    """Import the NATS client only where it is used."""
    if name == "JetStreamStore":
        from journals._jetstream import JetStreamStore

        return JetStreamStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
