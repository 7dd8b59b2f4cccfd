"""What a writer knows of one literal subject: its newest position, its ids, and who claims it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Sequence
from itertools import count

from journals._envelope import CLAIM_KIND, ID, KIND
from journals._log import Log, Stored

_COUNT_EVERY = 1000
_moments = count(1)


class Turn:
    """A lock that is handed on in order, and taken without a task switch or a coroutine where it is free."""

    __slots__ = ("_taken", "_waiting")

    def __init__(self) -> None:
        self._taken = False
        self._waiting: deque[asyncio.Future[None]] | None = None

    def __repr__(self) -> str:
        return f"<Turn {'taken' if self._taken else 'free'}, {len(self._waiting or ())} waiting>"

    def locked(self) -> bool:
        """Whether somebody has it."""
        return self._taken

    def take(self) -> bool:
        """Take it if it is free; False when it is not."""
        if self._taken:
            return False
        self._taken = True
        return True

    async def acquire(self) -> None:
        """Wait for it."""
        if self.take():
            return
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._waiting is None:
            self._waiting = deque()
        self._waiting.append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if not mine.cancelled():
                self.release()  # it came at the same moment: the next one's now
            raise

    def release(self) -> None:
        """Hand it to the next one who still waits for it."""
        while self._waiting:
            following = self._waiting.popleft()
            if not following.done():
                following.set_result(None)
                return
        self._taken = False


class SubjectIndex:
    """The head, the ids and the newest claim of one subject, kept in step by reading only what is new."""

    __slots__ = ("_read", "claim", "head", "ids", "lock", "overheard", "read_at", "subject")

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.head = 0
        self.claim = 0
        self.ids: dict[str, int] = {}
        self.lock = Turn()
        self.read_at = 0
        self.overheard: list[Stored] | None = None
        self._read = False

    def __repr__(self) -> str:
        return f"<SubjectIndex {self.subject} head={self.head} ids={len(self.ids)} claim={self.claim}>"

    @property
    def is_open(self) -> bool:
        """Whether it was read."""
        return self._read

    async def open(self, log: Log) -> None:
        """Read the subject at the first touch, and after a reading that did not come to its end."""
        if not self._read:
            await self._refresh(log)

    async def catch_up(self, log: Log) -> None:
        """Read what was written since, after a write that was refused or not answered.

        A short-lived log may have forgotten the subject meanwhile. Raises `StoreMismatch` when the log was replaced
        by another one, where nothing would ever fit again.
        """
        head = self.head
        await self._refresh(log)
        if self.head == head:
            await log.verify()
            newest = await log.last(self.subject)
            self.head = min(head, 0 if newest is None else newest.position)

    async def _refresh(self, log: Log) -> None:
        self._read, self.read_at = False, next(_moments)
        self.overheard = []  # what a tail meets meanwhile waits its turn: ids are taken in in order, or one is missed
        try:
            # Whether there is anything is asked first, since most sessions are new and only few may read at a time.
            if self.head or await log.last(self.subject) is not None:
                async for group in log.read(self.subject, self.head, None):
                    for stored in group:
                        self.note(stored)
            for stored in self.overheard:
                self.note(stored)
            self._read = True
        finally:
            self.overheard = None
            if not self._read:
                self.read_at = 0  # nothing may be overheard behind a gap

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

    def wrote_one(self, id: str, position: int) -> None:
        """Take in what was written here at this position."""
        if position > self.head:
            self.head = position
        self.ids[id] = position

    def wrote(self, ids: Sequence[str], last: int) -> None:
        """Take in what was written here at consecutive positions up to `last`."""
        self.head = max(self.head, last)
        for position, id in enumerate(ids, last - len(ids) + 1):
            self.ids[id] = position


class SubjectIndexes:
    """The indexes of the subjects touched last; older ones are forgotten and read again when needed.

    At most `limit` subjects are kept, and about `id_limit` ids in all of them (some 200 bytes each).
    """

    def __init__(self, limit: int, id_limit: int) -> None:
        self._limit, self._id_limit = limit, id_limit
        self._indexes: OrderedDict[str, SubjectIndex] = OrderedDict()
        self._touched = 0

    def __repr__(self) -> str:
        return f"<SubjectIndexes {len(self._indexes)} subjects>"

    def take(self, subject: str, known: int = 0) -> SubjectIndex | None:
        """What `acquire` gives, if nothing has to be waited for; None if something has."""
        index = self._touch(subject)
        if index.head < known or not index.is_open or not index.lock.take():
            return None
        return index

    async def acquire(self, subject: str, log: Log, known: int = 0) -> SubjectIndex:
        """The index of this subject, locked, and read at least up to the position `known`; release its lock."""
        while True:
            index = self._touch(subject)
            await index.lock.acquire()
            try:
                if self._indexes.get(subject) is index:  # else it was forgotten while we waited for it
                    await index.open(log)
                    if index.head < known:
                        await index.catch_up(log)
                    return index
            except BaseException:
                index.lock.release()
                raise
            index.lock.release()

    def _touch(self, subject: str) -> SubjectIndex:
        index = self._indexes.get(subject)
        if index is None:
            index = self._indexes[subject] = SubjectIndex(subject)
        else:
            self._indexes.move_to_end(subject)
        self._touched += 1
        if self._touched >= max(_COUNT_EVERY, len(self._indexes)):
            self._touched = 0
            self._forget_oldest(sum([len(each.ids) for each in self._indexes.values()]) - self._id_limit)
        elif len(self._indexes) > self._limit:
            self._forget_oldest(0)
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

    def _forget_oldest(self, excess: int) -> None:
        """Forget until no more subjects are kept than should be, and `excess` ids fewer; but none that is in use."""
        for _ in range(len(self._indexes) - 1):
            if excess <= 0 and len(self._indexes) <= self._limit:
                return
            subject, index = self._indexes.popitem(last=False)
            if index.lock.locked():
                self._indexes[subject] = index
            else:
                excess -= len(index.ids)
