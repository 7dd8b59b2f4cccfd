"""The journal: one branch's typed, append-only history, over whichever log stores it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NoReturn

import msgspec

from journals._attempts import PATIENCE_S, Attempts
from journals._cursor import RouteCursor, Term
from journals._entry import Entry, EntryRegistry
from journals._envelope import CLAIM_KIND, ID, IMPORTED, KIND, TIME, WRITER, Content, Envelope, lane_subject
from journals._errors import AppendOnly, ClaimLost, FenceRefused, IdConflict, InvalidEntry, JournalError, Unacknowledged
from journals._faults import ARMED, fault_point
from journals._ids import random_id
from journals._log import Fence, Log, Message
from journals._reader import JournalReader
from journals._record import Appended, Claim, Draft, Lane, Record
from journals._sessions import SubjectIndex

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
        self._writer = secrets.token_hex(4)
        self._mark = {WRITER: self._writer}

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
        return self._append_armed(draft, lane, expect) if ARMED else self._append(draft, lane, expect)

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
        appended = await self._append_all(drafts, lane, expect)
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
        written, created = await self._append(draft, record.lane, None, time=record.time, extra={IMPORTED: "1"})
        return Appended(msgspec.structs.replace(written, kind=record.kind, version=record.version), created)

    async def claim(self, session: str, owner: str) -> Claim:
        """Take the session over: whatever an older owner still has in flight is refused from now on."""
        subject, id = lane_subject(Lane.OUT, session), random_id()
        headers = {KIND: CLAIM_KIND, ID: id, TIME: f"{self._clock():.6f}", WRITER: self._writer}
        message = Message(subject, headers, owner.encode())
        if ARMED:
            fault_point(self.name, "claim", "before")
        index = await self._indexes.acquire(subject, self.log)
        attempts = Attempts(self._patience)
        try:
            while True:
                is_first = index.head == 0
                try:
                    position = await self.log.append(message, Fence(subject, index.head))
                except (FenceRefused, Unacknowledged) as error:
                    await attempts.failed(error)
                    await index.catch_up(self.log)
                    last = await self.log.last(subject)
                    if last is None or last.headers.get(ID) != id:
                        attempts.begin()
                        continue
                    position = last.position
                index.head, index.claim = max(index.head, position), max(index.claim, position)
                break
        finally:
            index.lock.release()
        if ARMED:
            fault_point(self.name, "claim", "after")
        return Claim(session, owner, position, is_first)

    async def position_of(self, id: str, *, expect: Claim) -> int | None:
        """Where the holder of a claim has written this id in the session's `out` lane; None where it has not.

        It reads nothing but what the next append would read.
        """
        index = await self._indexes.acquire(lane_subject(Lane.OUT, expect.session), self.log, expect.position)
        index.lock.release()
        return index.ids.get(id)

    def delete(self, *_: object) -> NoReturn:
        """Always raises `AppendOnly`: nothing is ever taken out of a journal."""
        raise AppendOnly("loom is append-only")

    def cursor(self, name: str, owner: str, term: Term) -> RouteCursor:
        """The place in this journal where a router remembers how far it has come."""
        return RouteCursor(self.log, self._envelope, name, owner, term, self._clock, self._patience)

    # How it is done

    async def _append_armed(self, draft: Draft, lane: Lane, expect: Claim | None) -> Appended:
        fault_point(self.name, "append", draft.entry.kind(), "before")
        appended = await self._append(draft, lane, expect)
        fault_point(self.name, "append", draft.entry.kind(), "after")
        return appended

    async def _append(
        self,
        draft: Draft,
        lane: Lane,
        expect: Claim | None,
        time: float | None = None,
        extra: dict[str, str] | None = None,
    ) -> Appended:
        now = round(self._clock(), 6) if time is None else time
        mark = extra
        if expect is None:
            mark = self._mark if extra is None else {**self._mark, **extra}
        message = self._envelope.pack(draft, lane, now, mark)
        if self._envelope.is_large(message):
            message = await self._envelope.outsource(message)
        subject, claimed = message.subject, 0 if expect is None else expect.position
        index = self._indexes.take(subject, claimed)
        if index is None:
            index = await self._indexes.acquire(subject, self.log, claimed)
        try:
            attempts = None
            while True:
                self._check_claim(index, expect)  # before looking: a newer owner may have used this very id
                known = index.ids.get(draft.id)
                if known is not None:
                    return await self._known(draft, message, known, created=attempts is not None)
                try:
                    position = await self.log.append(message, Fence(subject, index.head))
                except (FenceRefused, Unacknowledged) as error:
                    attempts = attempts or Attempts(self._patience)
                    await attempts.failed(error)
                    await index.catch_up(self.log)
                    attempts.begin()
                    continue
                index.wrote_one(draft.id, position)
                return Appended(self._record(draft, lane, position, now, extra), True)
        finally:
            index.lock.release()

    async def _append_all(self, drafts: Sequence[Draft], lane: Lane, expect: Claim | None) -> list[Appended]:
        now = round(self._clock(), 6)
        mark = self._mark if expect is None else None
        envelope = self._envelope
        messages = [envelope.pack(draft, lane, now, mark) for draft in drafts]
        messages = [await envelope.outsource(each) if envelope.is_large(each) else each for each in messages]
        index = await self._indexes.acquire(messages[0].subject, self.log, 0 if expect is None else expect.position)
        try:
            attempts = None
            while True:
                self._check_claim(index, expect)  # before looking: a newer owner may have used these very ids
                known = [index.ids.get(draft.id) for draft in drafts]
                if None not in known:
                    pairs = zip(drafts, messages, known, strict=True)
                    return [await self._known(d, m, k or 0, created=attempts is not None) for d, m, k in pairs]
                for draft, position in zip(drafts, known, strict=True):
                    if position is not None:
                        raise IdConflict(self.name, draft.session, draft.id, position)
                try:
                    last = await self.log.append_all(messages, Fence(index.subject, index.head))
                except (FenceRefused, Unacknowledged) as error:
                    attempts = attempts or Attempts(self._patience)
                    await attempts.failed(error)
                    await index.catch_up(self.log)
                    attempts.begin()
                    continue
                index.wrote([draft.id for draft in drafts], last)
                first = last - len(drafts) + 1
                return [
                    Appended(self._record(draft, lane, position, now, None), True)
                    for position, draft in enumerate(drafts, first)
                ]
        finally:
            index.lock.release()

    async def _known(self, draft: Draft, message: Message, position: int, *, created: bool) -> Appended:
        """The record that has this id already. After an unanswered write it may be our own: the writer mark tells."""
        stored = await self.log.get(position)
        record = None if stored is None else await self._envelope.unpack(stored)
        if stored is None or record is None:
            raise JournalError(f"position {position} of journal {self.name!r} has vanished")
        if Content.of(stored.headers, stored.body) != Content.of(message.headers, message.body):
            raise IdConflict(self.name, draft.session, draft.id, position)
        ours = stored.headers.get(WRITER) == message.headers.get(WRITER)
        return Appended(record, created and ours)

    def _check_claim(self, index: SubjectIndex, expect: Claim | None) -> None:
        if expect is not None and index.claim != expect.position:
            raise ClaimLost(self.name, f"session {expect.session!r}", expect.owner, index.claim)

    def _record(
        self, draft: Draft, lane: Lane, position: int, time: float, extra: dict[str, str] | None
    ) -> Record[Entry]:
        return Record(
            journal=self.name,
            position=position,
            id=draft.id,
            kind=draft.entry.kind(),
            session=draft.session,
            entry=draft.entry,
            time=time,
            version=draft.entry.schema_version,
            lane=lane,
            correlation_id=draft.correlation_id,
            causation_id=draft.causation_id,
            origin=draft.origin,
            route=draft.route,
            hops=draft.hops,
            imported=bool(extra and IMPORTED in extra),
        )


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
