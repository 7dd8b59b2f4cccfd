"""What a writer knows of one literal subject: its newest position, its ids, and who claims it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from itertools import count

from journals._envelope import CLAIM_KIND, ID, KIND
from journals._log import Log, Stored

_moments = count(1)


class SubjectIndex:
    """The head, the ids and the newest claim of one subject, kept in step by reading only what is new."""

    __slots__ = ("_read", "claim", "head", "ids", "lock", "overheard", "read_at", "subject")

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.head = 0
        self.claim = 0
        self.ids: dict[str, int] = {}
        self.lock = asyncio.Lock()
        self.read_at = 0
        self.overheard: list[Stored] | None = None
        self._read = False

    def __repr__(self) -> str:
        return f"<SubjectIndex {self.subject} head={self.head} ids={len(self.ids)} claim={self.claim}>"

    async def open(self, log: Log) -> None:
        """Read the subject once, at the first touch."""
        if not self._read:
            await self.refresh(log)
            self._read = True

    async def refresh(self, log: Log) -> None:
        """Read what was written since."""
        self.read_at = next(_moments)
        self.overheard = []  # what a tail meets meanwhile waits its turn: ids are taken in in order, or one is missed
        try:
            async for group in log.read(self.subject, self.head, None):
                for stored in group:
                    self.note(stored)
            for stored in self.overheard:
                self.note(stored)
        finally:
            self.overheard = None

    def note(self, stored: Stored) -> None:
        """Take in one message of this subject; what is known already changes nothing."""
        if stored.position <= self.head:
            return
        self.head = stored.position
        kind = stored.headers.get(KIND)
        if kind == CLAIM_KIND:
            self.claim = stored.position
        elif kind is not None:
            self.ids.setdefault(stored.headers.get(ID, ""), stored.position)

    def wrote(self, ids: Sequence[str], last: int) -> None:
        """Take in what was written here at consecutive positions up to `last`."""
        self.head = max(self.head, last)
        for position, id in enumerate(ids, last - len(ids) + 1):
            self.ids[id] = position


class SubjectIndexes:
    """The indexes of the subjects touched last; older ones are forgotten and read again when needed."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._indexes: OrderedDict[str, SubjectIndex] = OrderedDict()

    def __getitem__(self, subject: str) -> SubjectIndex:
        index = self._indexes.get(subject)
        if index is None:
            index = self._indexes[subject] = SubjectIndex(subject)
            self._forget_oldest()
        else:
            self._indexes.move_to_end(subject)
        return index

    def tailing(self) -> int:
        """The moment at which a tail begins; hand it to `overhear`."""
        return next(_moments)

    def overhear(self, stored: Stored, began: int) -> None:
        """Take in a message that a tail has met, so that the next write here need not be refused first.

        Only an index that was read after the tail began: it knows all that the tail did not bring.
        """
        index = self._indexes.get(stored.subject)
        if index is not None and index.read_at > began:
            if index.overheard is None:
                index.note(stored)
            else:
                index.overheard.append(stored)

    def _forget_oldest(self) -> None:
        while len(self._indexes) > self._limit:
            oldest = next(iter(self._indexes))
            if self._indexes[oldest].lock.locked():
                self._indexes.move_to_end(oldest)
                return
            del self._indexes[oldest]
