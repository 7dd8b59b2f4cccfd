"""The envelope of a record as message headers, so that a reader can drop what it does not want undecoded."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from journals._entry import Entry, EntryRegistry, Unreadable
from journals._errors import InvalidEntry
from journals._log import Log, Message, Stored
from journals._names import from_token, to_token
from journals._record import Draft, Lane, Record

KIND, ID, TIME, VERSION = "Coven-Kind", "Coven-Id", "Coven-Time", "Coven-Version"
CORRELATION, CAUSATION, ORIGIN, ROUTE = "Coven-Correlation", "Coven-Causation", "Coven-Origin", "Coven-Route"
BLOB, WRITER, IMPORTED, HOPS = "Coven-Blob", "Coven-Writer", "Coven-Imported", "Coven-Hops"
CLAIM_KIND = "Claim"

_LANES = {lane.value: lane for lane in Lane}


def lane_subject(lane: Lane, session: str) -> str:
    """The literal subject of one lane of one session."""
    return f"{lane.value}.{to_token(session)}"


class Envelope:
    """Packs drafts into messages and unpacks messages into records, for one journal."""

    def __init__(self, log: Log, registry: EntryRegistry, inline_limit: int, body_limit: int) -> None:
        self._log, self.registry = log, registry
        self._inline_limit, self._body_limit = inline_limit, body_limit

    async def pack(self, draft: Draft, lane: Lane, time: float, extra: dict[str, str] | None = None) -> Message:
        """The message of a draft; a body over the inline limit goes to the object store first."""
        entry = draft.entry
        if isinstance(entry, Unreadable) and extra and IMPORTED in extra:  # it goes on as it came
            kind, version, body = entry.of_kind, entry.version, entry.body
        else:
            kind, version, body = type(entry).__name__, entry.schema_version, self.registry.encode(entry)
        headers = {KIND: kind, ID: draft.id, TIME: f"{time:.6f}"}
        if version != 1:
            headers[VERSION] = str(version)
        if draft.correlation_id is not None:
            headers[CORRELATION] = draft.correlation_id
        if draft.causation_id is not None:
            headers[CAUSATION] = draft.causation_id
        if draft.origin is not None:
            headers[ORIGIN] = draft.origin
        if draft.route is not None:
            headers[ROUTE] = draft.route
        if draft.hops:
            headers[HOPS] = str(draft.hops)
        if extra:
            headers.update(extra)
        _check_plain(headers)
        if len(body) > self._inline_limit:
            body = await self._store_blob(body, headers)
        return Message(lane_subject(lane, draft.session), headers, body)

    async def _store_blob(self, body: bytes, headers: dict[str, str]) -> bytes:
        if len(body) > self._body_limit:
            raise InvalidEntry(
                f"{headers[KIND]} takes {len(body):,} bytes, over the limit of {self._body_limit:,}; "
                "write a file and send its path, or split it"
            )
        digest = hashlib.sha256(body).hexdigest()
        await self._log.put_blob(digest, body)
        headers[BLOB] = digest
        return b""

    async def unpack(self, stored: Stored) -> Record[Entry] | None:
        """The record of a message; None for claims and cursors, which are no entries."""
        headers = stored.headers
        kind = headers.get(KIND)
        lane_name, _, token = stored.subject.partition(".")
        lane = _LANES.get(lane_name)
        if kind is None or kind == CLAIM_KIND or lane is None:
            return None
        body = stored.body
        digest = headers.get(BLOB)
        if digest is not None:
            body = await self._log.get_blob(digest)
        version = int(headers.get(VERSION, "1"))
        return Record(
            journal=self._log.name,
            position=stored.position,
            id=headers.get(ID, ""),
            kind=kind,
            session=from_token(token),
            entry=self.registry.decode(kind, version, body),
            time=float(headers.get(TIME, stored.time)),
            version=version,
            lane=lane,
            correlation_id=headers.get(CORRELATION),
            causation_id=headers.get(CAUSATION),
            origin=headers.get(ORIGIN),
            route=headers.get(ROUTE),
            hops=int(headers.get(HOPS, "0")),
            imported=IMPORTED in headers,
        )


def _check_plain(headers: dict[str, str]) -> None:
    """Refuse what would not come back as it was, or could pass for another header."""
    together = "".join(headers.values())
    if together.isascii() and together.isprintable() and " " not in together:
        return  # the usual case, in one look
    for name, value in headers.items():
        if not value.isascii() or not value.isprintable() or value != value.strip():
            raise InvalidEntry(f"{name} is {value[:80]!r}: ids and names of the envelope are printable ASCII")


class Content(NamedTuple):
    """What must be equal for two messages of one id to be the same write."""

    kind: str
    version: str
    body: bytes
    blob: str | None
    correlation_id: str | None

    @classmethod
    def of(cls, headers: dict[str, str], body: bytes) -> Content:
        """The content of a stored or packed message."""
        return cls(headers[KIND], headers.get(VERSION, "1"), body, headers.get(BLOB), headers.get(CORRELATION))
