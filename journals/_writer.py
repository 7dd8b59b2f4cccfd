"""Writing to sessions: each write is fenced on its subject, and an id is written there once."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

from journals._attempts import Attempts
from journals._entry import Entry
from journals._envelope import CLAIM_KIND, ID, IMPORTED, KIND, TERM, TIME, WRITER, Content, Envelope, lane_subject
from journals._errors import ClaimLost, FenceRefused, IdConflict, JournalError, Unacknowledged
from journals._ids import random_id
from journals._log import Fence, Log, Message
from journals._record import Appended, Claim, Draft, Lane, Record
from journals._sessions import SubjectIndex, SubjectIndexes


class SessionWriter:
    """One writer of a log. What it knows of a subject it has read there; after a refusal it looks again.

    A mark in its messages tells them from those of other writers, when one of its writes was not answered.
    """

    def __init__(
        self, log: Log, envelope: Envelope, indexes: SubjectIndexes, clock: Callable[[], float], patience: float
    ) -> None:
        self._log, self._envelope, self._indexes = log, envelope, indexes
        self._clock, self._patience = clock, patience
        self._mark = {WRITER: secrets.token_hex(4)}

    def __repr__(self) -> str:
        return f"<SessionWriter {self._mark[WRITER]} of {self._log!r}>"

    async def write(
        self,
        draft: Draft,
        lane: Lane,
        expect: Claim | None = None,
        *,
        time: float | None = None,
        imported: bool = False,
    ) -> Appended:
        """Write a draft, unless its id stands there already; see `Journal.append`."""
        now = round(self._clock(), 6) if time is None else time
        mark = self._mark if expect is None else None
        if imported:
            mark = {**self._mark, IMPORTED: "1"}
        message = self._envelope.pack(draft, lane, now, mark)
        if self._envelope.is_large(message):
            message = await self._envelope.outsource(message)
        subject, claimed = message.subject, 0 if expect is None else expect.position
        index = self._indexes.take(subject, claimed)
        if index is None:
            index = await self._indexes.acquire(subject, self._log, claimed)
        try:
            attempts = None
            while True:
                self._check_claim(index, expect)  # before looking: a newer owner may have used this very id
                known = index.ids.get(draft.id)
                if known is not None:
                    return await self._known(draft, message, known, created=attempts is not None)
                try:
                    position = await self._log.append(message, Fence(subject, index.head))
                except (FenceRefused, Unacknowledged) as error:
                    attempts = attempts or Attempts(self._patience)
                    await self._look(index, attempts, error)
                    continue
                index.wrote_one(draft.id, position)
                return Appended(self._record(draft, lane, position, now, imported), True)
        finally:
            index.lock.release()

    async def write_all(self, drafts: Sequence[Draft], lane: Lane, expect: Claim | None) -> list[Appended]:
        """Write drafts of one session, all or none; see `Journal.append_all`."""
        now = round(self._clock(), 6)
        mark = self._mark if expect is None else None
        envelope = self._envelope
        messages = [envelope.pack(draft, lane, now, mark) for draft in drafts]
        messages = [await envelope.outsource(each) if envelope.is_large(each) else each for each in messages]
        index = await self._indexes.acquire(messages[0].subject, self._log, 0 if expect is None else expect.position)
        try:
            attempts = None
            while True:
                self._check_claim(index, expect)  # before looking: a newer owner may have used these very ids
                known = [index.ids.get(draft.id) for draft in drafts]
                if None not in known:
                    return [
                        await self._known(draft, message, position or 0, created=attempts is not None)
                        for draft, message, position in zip(drafts, messages, known, strict=True)
                    ]
                for draft, position in zip(drafts, known, strict=True):
                    if position is not None:
                        raise IdConflict(self._log.name, draft.session, draft.id, position)
                try:
                    last = await self._log.append_all(messages, Fence(index.subject, index.head))
                except (FenceRefused, Unacknowledged) as error:
                    attempts = attempts or Attempts(self._patience)
                    await self._look(index, attempts, error)
                    continue
                index.wrote([draft.id for draft in drafts], last)
                first = last - len(drafts) + 1
                return [
                    Appended(self._record(draft, lane, position, now), True)
                    for position, draft in enumerate(drafts, first)
                ]
        finally:
            index.lock.release()

    async def claim(self, session: str, owner: str, term: int) -> Claim:
        """See `Journal.claim`."""
        subject, id = lane_subject(Lane.OUT, session), random_id()
        headers = {KIND: CLAIM_KIND, ID: id, TIME: f"{self._clock():.6f}", **self._mark}
        if term:
            headers[TERM] = str(term)
        message = Message(subject, headers, owner.encode())
        index = await self._indexes.acquire(subject, self._log)
        attempts = Attempts(self._patience)
        try:
            while True:
                is_first = index.head == 0
                try:
                    position = await self._log.append(message, Fence(subject, index.head))
                except (FenceRefused, Unacknowledged) as error:
                    await attempts.failed(error)
                    await index.catch_up(self._log)
                    last = await self._log.last(subject)
                    if last is None or last.headers.get(ID) != id:
                        attempts.begin()
                        continue
                    position = last.position
                index.head, index.claim = max(index.head, position), max(index.claim, position)
                break
        finally:
            index.lock.release()
        return Claim(session, owner, position, is_first)

    async def _look(self, index: SubjectIndex, attempts: Attempts, error: FenceRefused | Unacknowledged) -> None:
        """A write was not taken, or not answered: see what stands there, after a pause where one is due."""
        await attempts.failed(error)
        await index.catch_up(self._log)
        attempts.begin()

    async def _known(self, draft: Draft, message: Message, position: int, *, created: bool) -> Appended:
        """The record that has this id already. After an unanswered write it may be our own: the writer mark tells."""
        stored = await self._log.get(position)
        record = None if stored is None else await self._envelope.unpack(stored)
        if stored is None or record is None:
            raise JournalError(f"position {position} of journal {self._log.name!r} has vanished")
        if Content.of(stored.headers, stored.body) != Content.of(message.headers, message.body):
            raise IdConflict(self._log.name, draft.session, draft.id, position)
        ours = stored.headers.get(WRITER) == message.headers.get(WRITER)
        return Appended(record, created and ours)

    def _check_claim(self, index: SubjectIndex, expect: Claim | None) -> None:
        if expect is not None and index.claim != expect.position:
            raise ClaimLost(self._log.name, f"session {expect.session!r}", expect.owner, index.claim)

    def _record(self, draft: Draft, lane: Lane, position: int, time: float, imported: bool = False) -> Record[Entry]:
        return Record(
            journal=self._log.name,
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
            imported=imported,
        )
