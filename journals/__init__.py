"""What happened: typed, append-only journals, on NATS JetStream or in memory."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from journals._cursor import RouteCursor, Routed, Term
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
from journals._export import InvalidLine, export_line, parse_line
from journals._ids import DerivedIds, derive_id, random_id
from journals._journal import Clock, Journal
from journals._memory import MemoryStore
from journals._record import Appended, Claim, Draft, Lane, Record
from journals._store import Store

if TYPE_CHECKING:
    from journals._doctor import Finding, examine
    from journals._jetstream import JetStreamStore
    from journals._server import Durability, EmbeddedServer, FolderTaken, ServerAddress, ServerFailure, find_server

__all__ = [
    "AppendOnly",
    "Appended",
    "Claim",
    "ClaimLost",
    "Clock",
    "DerivedIds",
    "Draft",
    "Durability",
    "EmbeddedServer",
    "Entry",
    "EntryRegistry",
    "FenceRefused",
    "Finding",
    "FolderTaken",
    "IdConflict",
    "InvalidEntry",
    "InvalidLine",
    "InvalidName",
    "JetStreamStore",
    "Journal",
    "JournalError",
    "Lane",
    "MemoryStore",
    "Record",
    "RouteCursor",
    "Routed",
    "ServerAddress",
    "ServerFailure",
    "Store",
    "StoreFull",
    "StoreMismatch",
    "StoreRefused",
    "StoreUnavailable",
    "Term",
    "Unacknowledged",
    "UnknownKind",
    "Unreadable",
    "derive_id",
    "examine",
    "export_line",
    "find_server",
    "parse_line",
    "random_id",
]

# The NATS client, the server's keeper and the doctor are imported only where they are used.
_LAZY = {
    "JetStreamStore": "journals._jetstream",
    "Durability": "journals._server",
    "EmbeddedServer": "journals._server",
    "FolderTaken": "journals._server",
    "ServerAddress": "journals._server",
    "ServerFailure": "journals._server",
    "find_server": "journals._server",
    "Finding": "journals._doctor",
    "examine": "journals._doctor",
}


def __getattr__(name: str) -> Any:
    """Import a lazy name from its module."""
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
