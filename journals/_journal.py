"""The journal: one branch's typed, append-only history, over whichever log stores it."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NoReturn

import msgspec

from journals._attempts import PATIENCE_S
from journals._cursor import RouteCursor, Term
from journals._entry import Entry, EntryRegistry
from journals._envelope import TERM, Envelope, lane_subject
from journals._errors import AppendOnly, InvalidEntry
from journals._faults import ARMED, fault_point
from journals._ids import random_id
from journals._log import Log
from journals._reader import JournalReader
from journals._record import Appended, Claim, Draft, Lane, Record
from journals._writer import SessionWriter

Clock = Callable[[], float]
INLINE_LIMIT = 256 * 1024
BODY_LIMIT = 64 * 1024 * 1024
MAX_BATCH = 1000


class Journal(JournalReader):
    """Append, claim, read, tail. The same on JetStream and in memory; open it through a store.

    Appending is idempotent by id for ever: the writer knows the ids of a session from the journal itself, not from
    a server's time window. `patience` is how many seconds a write is tried again that a server which answers does
    not take.
    """

    def __init__(
        self,
        log: Log,
        registry: EntryRegistry,
        *,
        clock: Clock = time.time,
        inline_limit: int = INLINE_LIMIT,
        body_limit: int = BODY_LIMIT,
        patience: float = PATIENCE_S,
    ) -> None:
        super().__init__(log, Envelope(log, registry, inline_limit, body_limit))
        self.registry, self._clock, self._patience = registry, clock, patience
        self._writer = SessionWriter(log, self._envelope, self._indexes, clock, patience)

    def append(
        self,
        entry: Entry,
        *,
        session: str,
        id: str | None = None,
        lane: Lane = Lane.IN,
        expect: Claim | None = None,
        cause: Record[Entry] | None = None,
        correlation_id: str | None = None,
        origin: str | None = None,
    ) -> Coroutine[Any, Any, Appended]:
        """Write the entry; it is durable when this returns.

        The same id with the same content gives the first record and `created=False`, however much later. `cause`
        hands on correlation and origin. With `expect` the entry goes to the session's `out` lane, and is refused
        once somebody else has claimed the session.

        Raises `IdConflict`, `ClaimLost`, `InvalidEntry`, `InvalidName`, `StoreFull`, `StoreUnavailable`.
        """
        draft = _draft(entry, session, id, cause, correlation_id, origin)
        lane = Lane.OUT if expect is not None else lane
        return self._append_armed(draft, lane, expect) if ARMED else self._writer.write(draft, lane, expect)

    async def append_all(
        self, drafts: Sequence[Draft], *, lane: Lane = Lane.IN, expect: Claim | None = None
    ) -> list[Appended]:
        """Write all drafts of one session or none, in order (at most 1,000). Raises what `append` raises."""
        if not drafts:
            return []
        if len({draft.session for draft in drafts}) > 1:
            raise ValueError("append_all writes to one session at a time; call it once a session")
        if len({draft.id for draft in drafts}) < len(drafts):
            raise ValueError("two drafts have the same id; an id names one entry of its session")
        if len(drafts) > MAX_BATCH:
            raise InvalidEntry(f"{len(drafts)} entries at once; a batch holds at most {MAX_BATCH}: write several")
        lane = Lane.OUT if expect is not None else lane
        if ARMED:
            fault_point(self.name, "append_all", drafts[0].entry.kind(), "before")
        appended = await self._writer.write_all(drafts, lane, expect)
        if ARMED:
            fault_point(self.name, "append_all", drafts[0].entry.kind(), "after")
        return appended

    async def send(self, draft: Draft) -> None:
        """Write without waiting and without any guarantee: for what informs and is soon forgotten."""
        message = self._envelope.pack(draft, Lane.IN, self._clock())
        await self.log.send(await self._envelope.outsource(message) if self._envelope.is_large(message) else message)

    async def import_record(self, record: Record[Entry]) -> Appended:
        """Write a record of another journal under its own id and time, marked so that no route takes it.

        What could not be decoded is written as it came. Raises what `append` raises.
        """
        draft = Draft(
            entry=record.entry,
            session=record.session,
            id=record.id,
            correlation_id=record.correlation_id,
            causation_id=record.causation_id,
            origin=record.origin,
            route=record.route,
            hops=record.hops,
        )
        written, created = await self._writer.write(draft, record.lane, time=record.time, imported=True)
        return Appended(msgspec.structs.replace(written, kind=record.kind, version=record.version), created)

    async def claim(self, session: str, owner: str, *, term: int = 0) -> Claim:
        """Take the session over: whatever an older owner still has in flight is refused from now on.

        With a `term` who is refused can tell whether this owner began before; see `term_of`.
        """
        if ARMED:
            fault_point(self.name, "claim", "before")
        claim = await self._writer.claim(session, owner, term)
        if ARMED:
            fault_point(self.name, "claim", "after")
        return claim

    async def term_of(self, claim: int) -> int:
        """The term of the claim at this position; 0 where its owner told none."""
        stored = await self.log.get(claim)
        told = "" if stored is None else stored.headers.get(TERM, "")
        return int(told) if told.isascii() and told.isdigit() else 0

    async def position_of(self, id: str, *, expect: Claim) -> int | None:
        """Where the holder of a claim has written this id in the session's `out` lane; None where it has not.

        It reads nothing but what the next append would read.
        """
        index = await self._indexes.acquire(lane_subject(Lane.OUT, expect.session), self.log, expect.position)
        index.lock.release()
        return index.ids.get(id)

    async def has(self, id: str, session: str) -> bool:
        """Whether this id stands in the session's `in` lane now, whoever wrote it.

        The lane is read at the first touch, and from then on only what was written since.
        """
        subject = lane_subject(Lane.IN, session)
        index = await self._indexes.acquire(subject, self.log)
        try:
            newest = await self.log.last(subject)
            if newest is not None and newest.position > index.head:
                await index.catch_up(self.log)
            return id in index.ids
        finally:
            index.lock.release()

    def delete(self, *_: object) -> NoReturn:
        """Always raises `AppendOnly`: nothing is ever taken out of a journal."""
        raise AppendOnly("loom is append-only")

    def cursor(self, name: str, owner: str, term: Term) -> RouteCursor:
        """The place in this journal where a router remembers how far it has come."""
        return RouteCursor(self.log, self._envelope, name, owner, term, self._clock, self._patience)

    async def _append_armed(self, draft: Draft, lane: Lane, expect: Claim | None) -> Appended:
        fault_point(self.name, "append", draft.entry.kind(), "before")
        appended = await self._writer.write(draft, lane, expect)
        fault_point(self.name, "append", draft.entry.kind(), "after")
        return appended


def _draft(
    entry: Entry,
    session: str,
    id: str | None,
    cause: Record[Entry] | None,
    correlation_id: str | None,
    origin: str | None,
) -> Draft:
    return Draft(
        entry=entry,
        session=session,
        id=random_id() if id is None else id,
        correlation_id=correlation_id if correlation_id is not None or cause is None else cause.correlation_id,
        causation_id=None if cause is None else cause.id,
        origin=origin if origin is not None or cause is None else cause.origin,
        hops=0 if cause is None else cause.hops,
    )
