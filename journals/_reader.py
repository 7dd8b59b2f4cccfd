"""Reading a journal: what is recorded, from either end, and what comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import aclosing
from operator import attrgetter

from journals._entry import Entry
from journals._envelope import BLOB, KIND, Envelope, lane_subject
from journals._errors import JournalError
from journals._log import Log, Stored
from journals._merge import merge_by_position
from journals._record import Lane, Record
from journals._sessions import SubjectIndexes

_OPEN_SUBJECTS, _KNOWN_IDS = 10_000, 2_000_000
_REVERSE_WINDOW = 500


class JournalReader:
    """What can be asked of a journal. What a tail meets also tells the writer how far each subject goes."""

    def __init__(self, log: Log, envelope: Envelope) -> None:
        self.log, self._envelope = log, envelope
        self._indexes = SubjectIndexes(_OPEN_SUBJECTS, _KNOWN_IDS)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} on {self.log!r}>"

    @property
    def name(self) -> str:
        """The branch instance whose journal this is."""
        return self.log.name

    async def read(
        self,
        *,
        after: int = 0,
        before: int | None = None,
        kinds: Collection[str] | None = None,
        session: str | None = None,
        lane: Lane | None = None,
        reverse: bool = False,
    ) -> AsyncGenerator[Record[Entry]]:
        """What is recorded now, in order: positions between `after` and `before`, both exclusive.

        With `lane` only one lane of the session is read; it has no meaning without a session, or in `reverse`.
        """
        if reverse:
            async for stored in self._read_backwards(session, after, before):
                if _is_of(stored, kinds) and (record := await self._unpack(stored)):
                    yield record
            return
        async for group in self._read(session, after, before, lane):
            for stored in group:
                if _is_of(stored, kinds) and (record := await self._unpack(stored)):
                    yield record

    async def tail(
        self, after: int = 0, *, kinds: Collection[str] | None = None, session: str | None = None
    ) -> AsyncGenerator[Record[Entry]]:
        """Everything behind a position, for ever. Never skips, never repeats; a slow reader slows the reading."""
        async with aclosing(self.tail_groups(after, kinds=kinds, session=session)) as groups:
            async for group in groups:
                for record in group:
                    yield record

    async def tail_groups(
        self, after: int = 0, *, kinds: Collection[str] | None = None, session: str | None = None
    ) -> AsyncGenerator[list[Record[Entry]]]:
        """`tail` in groups of what is there at once, for readers that work on many together."""
        subjects = None if session is None else {lane_subject(lane, session) for lane in Lane}
        began, overhear = self._indexes.tailing(), self._indexes.overhear

        def hears(stored: Stored) -> bool:
            overhear(stored, began)
            if subjects is not None and stored.subject not in subjects:
                return False
            return _is_of(stored, kinds)

        async with aclosing(self.log.tail(after, hears)) as groups:
            async for group in groups:
                records: list[Record[Entry]] = []
                for stored in group:
                    if (record := await self._unpack(stored)) is not None:
                        records.append(record)
                        if BLOB in stored.headers:  # large bodies are not gathered in memory
                            yield records
                            records = []
                if records:
                    yield records

    async def wait_for(
        self,
        wanted: str | Callable[[Record[Entry]], bool],
        *,
        after: int = 0,
        kinds: Collection[str] | None = None,
        session: str | None = None,
        timeout: float | None = None,
    ) -> Record[Entry]:
        """The first record with this correlation id, or that the predicate accepts.

        `timeout` is in seconds; raises `TimeoutError` when it passes.
        """
        async with asyncio.timeout(timeout), aclosing(self.tail(after, kinds=kinds, session=session)) as records:
            async for record in records:
                if wanted(record) if callable(wanted) else record.correlation_id == wanted:
                    return record
        raise JournalError(f"the tail of {self.name} ended")  # a tail never ends by itself

    async def last(self, *, session: str | None = None, kinds: Collection[str] | None = None) -> Record[Entry] | None:
        """The newest record, of a session or of some kinds where given; None when there is none."""
        if session is not None:
            newest = await self._newest_of(session)
            if newest is None:
                return None
            if _is_of(newest, kinds) and (record := await self._unpack(newest)):
                return record
        async with aclosing(self.read(session=session, kinds=kinds, reverse=True)) as records:
            async for record in records:
                return record
        return None

    async def get(self, position: int) -> Record[Entry] | None:
        """The record at a position, or None."""
        stored = await self.log.get(position)
        return None if stored is None else await self._envelope.unpack(stored)

    async def end(self) -> int:
        """The position of the newest message of any sort; 0 when the journal is empty."""
        return await self.log.end()

    async def _unpack(self, stored: Stored) -> Record[Entry] | None:
        if BLOB in stored.headers:
            return await self._envelope.unpack(stored)
        return self._envelope.unpack_inline(stored)

    async def _read(
        self, session: str | None, after: int, before: int | None, lane: Lane | None
    ) -> AsyncGenerator[Sequence[Stored]]:
        if session is None:
            async for group in self.log.read(None, after, before):
                yield group
            return
        if lane is not None:
            async for group in self.log.read(lane_subject(lane, session), after, before):
                yield group
            return
        now = await self.log.end() + 1  # both lanes as they stand at one moment, or what came between would be missed
        async for group in self._read_lanes(session, after, now if before is None else min(before, now)):
            yield group

    def _read_lanes(self, session: str, after: int, before: int) -> AsyncGenerator[Sequence[Stored]]:
        """Both lanes of a session up to a position that has been reached."""
        return merge_by_position([self.log.read(lane_subject(lane, session), after, before) for lane in Lane])

    async def _read_backwards(self, session: str | None, after: int, before: int | None) -> AsyncGenerator[Stored]:
        if session is None:
            top = await self.log.end() + 1
        else:
            newest = await self._newest_of(session)
            top = 0 if newest is None else newest.position + 1
        if before is not None:
            top = min(top, before)
        width = _REVERSE_WINDOW
        while top > after + 1:
            bottom = max(after, top - 1 - width)
            if session is None:
                groups = self.log.read(None, bottom, top)
            else:
                groups = self._read_lanes(session, bottom, top)
                width *= 2  # a session's messages may lie far from each other, and looking for them costs little
            window = [stored async for group in groups for stored in group]
            for stored in reversed(window):
                yield stored
            top = bottom + 1

    async def _newest_of(self, session: str) -> Stored | None:
        """The newest message of a session, claims included."""
        found = await asyncio.gather(*[self.log.last(lane_subject(lane, session)) for lane in Lane])
        return max((stored for stored in found if stored is not None), key=attrgetter("position"), default=None)


def _is_of(stored: Stored, kinds: Collection[str] | None) -> bool:
    return kinds is None or stored.headers.get(KIND) in kinds
