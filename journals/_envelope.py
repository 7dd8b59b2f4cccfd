"""The envelope of a record as message headers, so that a reader can drop what it does not want undecoded."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import NamedTuple

import msgspec

from journals._entry import Entry, EntryRegistry, Unreadable
from journals._errors import InvalidEntry
from journals._log import Log, Message, Stored
from journals._names import from_token, to_token
from journals._record import Draft, Lane, Record

KIND, ID, TIME, VERSION = "Coven-Kind", "Coven-Id", "Coven-Time", "Coven-Version"
CORRELATION, CAUSATION, ORIGIN, ROUTE = "Coven-Correlation", "Coven-Causation", "Coven-Origin", "Coven-Route"
BLOB, WRITER, IMPORTED, HOPS = "Coven-Blob", "Coven-Writer", "Coven-Imported", "Coven-Hops"
CLAIM_KIND, TERM = "Claim", "Coven-Term"

_LANES = {lane.value: lane for lane in Lane}
_MAX_ENVELOPE = 8192
_LATEST = 1e11  # seconds: a time behind the year 5000 is none


@lru_cache(maxsize=65536)
def lane_subject(lane: Lane, session: str) -> str:
    """The literal subject of one lane of one session."""
    return f"{lane.value}.{to_token(session)}"


class Envelope:
    """Packs drafts into messages and unpacks messages into records, for one journal."""

    def __init__(self, log: Log, registry: EntryRegistry, inline_limit: int, body_limit: int) -> None:
        self._log, self.registry = log, registry
        self._inline_limit, self._body_limit = inline_limit, body_limit

    def pack(
        self, draft: Draft, lane: Lane, time: float, extra: dict[str, str] | None = None, *, checked: bool = False
    ) -> Message:
        """The message of a draft; before it is written, `outsource` takes its body away if that is too large.

        `checked` says that its envelope comes from a stored record, so that a glance at it is enough.
        Raises `InvalidEntry` and `InvalidName` for what cannot be stored.
        """
        entry = draft.entry
        if isinstance(entry, Unreadable) and extra and IMPORTED in extra:  # it goes on as it came
            kind, version, body = entry.of_kind, entry.version, entry.body
        else:
            kind, version, body = type(entry).__name__, entry.schema_version, self.registry.encode(entry)
        if kind == CLAIM_KIND:
            raise InvalidEntry(f"an entry cannot be of kind {CLAIM_KIND!r}: claims have that name; choose another")
        subject = lane_subject(lane, draft.session)
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
        if not checked or not _looks_plain(draft):
            _check_plain(headers)
        if len(body) > self._body_limit:
            raise InvalidEntry(
                f"{kind} takes {len(body):,} bytes, over the limit of {self._body_limit:,}; "
                "write a file and send its path, or split it"
            )
        return Message(subject, headers, body)

    def is_large(self, message: Message) -> bool:
        """Whether the body is too large to be written with the message."""
        return len(message.body) > self._inline_limit

    async def outsource(self, message: Message) -> Message:
        """Put a large body into the object store; gives the message that stands for it."""
        digest = hashlib.sha256(message.body).hexdigest()
        await self._log.put_blob(digest, message.body)
        return Message(message.subject, {**message.headers, BLOB: digest}, b"")

    async def unpack(self, stored: Stored) -> Record[Entry] | None:
        """The record of a message; None for claims and cursors, which are no entries. Raises what the log raises."""
        digest = stored.headers.get(BLOB)
        if digest is None:
            return self.unpack_inline(stored)
        large = await self._log.get_blob(digest)
        problem = f"its large body {digest[:80]!r} is not in the store" if large is None else None
        return self.unpack_inline(stored if large is None else msgspec.structs.replace(stored, body=large), problem)

    def unpack_inline(self, stored: Stored, problem: str | None = None) -> Record[Entry] | None:
        """The same for a message that has its body with it.

        Anybody may have written the message: whatever is wrong with it is said by an `Unreadable`, as is `problem`.
        """
        headers = stored.headers
        kind = headers.get(KIND)
        lane_name, _, token = stored.subject.partition(".")
        lane = _LANES.get(lane_name)
        if kind is None or kind == CLAIM_KIND or lane is None:
            return None
        session, body = from_token(token), stored.body
        if session is None:
            session, problem = token, f"its subject ends in {token[:80]!r}, which names no session"
        try:
            version, hops = int(headers.get(VERSION, "1")), int(headers.get(HOPS, "0"))
            time = float(headers.get(TIME, stored.time))
            if not 0 <= time < _LATEST:
                raise ValueError(f"{time} is not a time")
        except ValueError as error:
            version, hops, time, problem = 0, 0, stored.time, f"a number in its envelope is wrong: {error}"
        if problem is None:
            entry = self.registry.decode(kind, version, body)
        else:
            entry = Unreadable(of_kind=kind, version=version, reason=problem, body=body)
        return Record(
            journal=self._log.name,
            position=stored.position,
            id=headers.get(ID, ""),
            kind=kind,
            session=session,
            entry=entry,
            time=time,
            version=version,
            lane=lane,
            correlation_id=headers.get(CORRELATION),
            causation_id=headers.get(CAUSATION),
            origin=headers.get(ORIGIN),
            route=headers.get(ROUTE),
            hops=hops,
            imported=IMPORTED in headers,
        )


def _looks_plain(draft: Draft) -> bool:
    """Whether what a route takes over from its source may be written as it is; anybody may have written that."""
    inherited = f"{draft.correlation_id}{draft.causation_id}{draft.origin}"
    return len(inherited) < 1000 and inherited.isascii() and inherited.isprintable()


def _check_plain(headers: dict[str, str]) -> None:
    """Refuse what would not come back as it was, or could pass for another header."""
    together = "".join(headers.values())
    if len(together) > _MAX_ENVELOPE:
        raise InvalidEntry(f"the ids and names of its envelope take {len(together):,} of {_MAX_ENVELOPE:,} bytes")
    if together.isascii() and together.isprintable() and " " not in together:
        return  # the usual case, in one look
    for name, value in headers.items():
        if not value.isascii() or not value.isprintable() or value != value.strip():
            raise InvalidEntry(f"{name} is {value[:80]!r}: ids and names of the envelope are printable ASCII")


class Content(NamedTuple):
    """What must be equal for two messages of one id to be the same write."""

    kind: str
    version: str
    digest: str
    correlation_id: str | None

    @classmethod
    def of(cls, headers: dict[str, str], body: bytes) -> Content:
        """The content of a stored or packed message."""
        digest = headers.get(BLOB) or hashlib.sha256(body).hexdigest()
        return cls(headers[KIND], headers.get(VERSION, "1"), digest, headers.get(CORRELATION))
