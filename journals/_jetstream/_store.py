"""Opening journals on a NATS server."""

from __future__ import annotations

import time
from types import TracebackType

from journals._attempts import PATIENCE_S
from journals._entry import EntryRegistry
from journals._jetstream._blobs import Blobs
from journals._jetstream._connection import Connection
from journals._jetstream._log import JetStreamLog
from journals._jetstream._publisher import Publisher
from journals._jetstream._settings import journal_settings
from journals._jetstream._shared import SharedTail
from journals._jetstream._streams import open_stream
from journals._journal import INLINE_LIMIT, Clock, Journal
from journals._names import check_plain_name


class JetStreamStore:
    """Journals of one coven on one server or cluster; `coven` prefixes its streams and subjects.

    async with await JetStreamStore.connect("nats://localhost:4222", "hearth") as store:
        journal = await store.open("chat", CHAT.registry())
    """

    def __init__(self, connection: Connection, publisher: Publisher, coven: str, replicas: int, clock: Clock) -> None:
        self.connection, self.coven = connection, coven
        self._publisher, self._replicas, self._clock = publisher, replicas, clock
        self._blobs = Blobs(connection, publisher, coven, replicas)
        self._tails: dict[tuple[str, str], SharedTail] = {}

    def __repr__(self) -> str:
        return f"<JetStreamStore {self.coven} at {self.connection.url}>"

    @classmethod
    async def connect(
        cls,
        url: str,
        coven: str,
        *,
        token: str | None = None,
        credentials: str | None = None,
        replicas: int = 1,
        patience: float = PATIENCE_S,
        clock: Clock = time.time,
    ) -> JetStreamStore:
        """Connect to a server. `patience` is how many seconds an operation waits for a server that is away, or that
        does not take it.

        Raises `StoreUnavailable`, `StoreRefused`, `StoreMismatch` (too old), `InvalidName`.
        """
        check_plain_name("coven", coven)
        connection = await Connection.open(url, token=token, credentials=credentials, patience=patience)
        publisher = Publisher(connection)
        await publisher.open()
        return cls(connection, publisher, coven, replicas, clock)

    async def open(self, name: str, registry: EntryRegistry, *, short_lived: bool = False) -> Journal:
        """The journal of this name; its stream is made if it is new, and checked if it is not."""
        check_plain_name("journal", name)
        settings = journal_settings(self.coven, name, replicas=self._replicas, short_lived=short_lived)
        stream = await open_stream(self.connection, settings, f"{self.coven}.{name}.")
        tails = self._tails.setdefault((name, stream.created), SharedTail(stream))
        log = JetStreamLog(name, stream, self._publisher, tails, self._blobs)
        inline_limit = min(INLINE_LIMIT, self.connection.client.max_payload // 2)
        return Journal(log, registry, clock=self._clock, inline_limit=inline_limit, patience=self.connection.patience)

    async def close(self) -> None:
        """Close the connection; whatever is unanswered ends as unacknowledged."""
        self._publisher.close()
        await self.connection.close()

    async def __aenter__(self) -> JetStreamStore:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
