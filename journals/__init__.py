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
    from journals._server import Durability, EmbeddedServer, FolderTaken, ServerAddress, ServerFailure, find_server

__all__ = [
    "AppendOnly",
    "Appended",
    "Claim",
    "ClaimLost",
    "Clock",
    "Draft",
    "Durability",
    "EmbeddedServer",
    "Entry",
    "EntryRegistry",
    "FenceRefused",
    "FolderTaken",
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
    "ServerAddress",
    "ServerFailure",
    "Store",
    "StoreFull",
    "StoreMismatch",
    "StoreRefused",
    "StoreUnavailable",
    "Unacknowledged",
    "UnknownKind",
    "Unreadable",
    "derive_id",
    "find_server",
    "random_id",
]


_SERVER = {"Durability", "EmbeddedServer", "FolderTaken", "ServerAddress", "ServerFailure", "find_server"}


def __getattr__(name: str) -> Any:
    """Import the NATS client and the server's keeper only where they are used."""
    if name == "JetStreamStore":
        from journals._jetstream import JetStreamStore

        return JetStreamStore
    if name in _SERVER:
        from journals import _server

        return getattr(_server, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
