"""What opens journals: a connection to a server, or this process's memory."""

from __future__ import annotations

from typing import Protocol

from journals._entry import EntryRegistry
from journals._journal import Journal

SHORT_LIVED_S = 600
"""After so many seconds a short-lived journal forgets."""


class Store(Protocol):
    """Opens journals by name. `JetStreamStore` and `MemoryStore` are the two there are."""

    async def open(self, name: str, registry: EntryRegistry, *, short_lived: bool = False) -> Journal:
        """The journal of this name, made if it is new; a short-lived one forgets after some minutes."""
        ...

    async def close(self) -> None:
        """Release the connection; what is journaled stays."""
        ...
