"""How far everything is settled, and the marks that tell it to the next start."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, Collection, Iterable
from contextlib import aclosing

from branches.claims import Claims
from journals import ClaimLost, Entry, Journal, Lane, Record, derive_id

SETTLED_EVERY = 500


class Mark(Entry, frozen=True, kw_only=True):
    """Everything up to this position of the journal is settled. Each branch writes a kind of its own."""

    position: int


class Settled:
    """The positions that wait for their outcome, and so the position up to which nothing waits.

    Whatever asks for an outcome is opened in the order of the journal and closed when it has one, in any order; it
    may be closed before the tail brings it. What a service leaves alone stays open: somebody else may still have to
    settle it. Each time another `every` positions are settled a mark is written into a session of the marks' own, so
    that a start need not read what lies before. A mark is true by itself, whoever wrote it: when a newer service
    claims that session, this one misses a mark and claims it back for its next one.
    """

    def __init__(
        self, journal: Journal, claims: Claims, kind: type[Mark], session: str, *, every: int = SETTLED_EVERY
    ) -> None:
        self._journal, self._claims, self._kind, self._session, self._every = journal, claims, kind, session, every
        self._open: OrderedDict[int, None] = OrderedDict()  # its first one is found at once, a plain dict's is not
        self._closed_ahead: set[int] = set()
        self._seen = self._marked = 0
        self._marking = False

    def __repr__(self) -> str:
        return f"<Settled {self._journal.name} up to {self.upto}, {self.waiting} waiting>"

    @property
    def upto(self) -> int:
        """Everything up to this position is settled."""
        return next(iter(self._open), self._seen + 1) - 1

    @property
    def seen(self) -> int:
        """How far the journal was read."""
        return self._seen

    @property
    def waiting(self) -> int:
        """How many positions wait for their outcome."""
        return len(self._open)

    async def restart(self, kinds: Collection[str]) -> AsyncGenerator[Record[Entry]]:
        """Begin anew: what was recorded of these kinds since the newest mark, up to the journal's end as it is now.

        The caller folds it, and says with `open` what of it still waits. Time grows with what was recorded since.
        """
        self._open.clear()
        self._closed_ahead.clear()
        self._marked = await self._newest_mark()
        self._seen = await self._journal.end()
        async for record in self._journal.read(after=self._marked, before=self._seen + 1, kinds=kinds):
            yield record

    def open(self, positions: Iterable[int]) -> None:
        """These positions, in order, wait for their outcome."""
        self._open.update(dict.fromkeys(positions))

    def see(self, position: int, *, asks: bool) -> None:
        """The tail has come this far; `asks` says that what stands there is to have an outcome."""
        self._seen = position
        if position in self._closed_ahead:
            self._closed_ahead.remove(position)
        elif asks:
            self._open[position] = None

    async def close(self, position: int) -> None:
        """What stands at this position has its outcome. Writes a mark when one is due; raises what the journal raises.

        One mark is written at a time, and nobody but who writes it waits for it.
        """
        if position in self._open:
            del self._open[position]
        elif position > self._seen:
            self._closed_ahead.add(position)
        if not self._marking and self.upto - self._marked >= self._every:
            self._marking = True
            try:
                await self._mark(self.upto)
            finally:
                self._marking = False

    async def _mark(self, position: int) -> None:
        self._marked = position
        id = derive_id("settled", position)
        claim = await self._claims.take(self._session)
        try:
            await self._journal.append(self._kind(position=position), session=self._session, id=id, expect=claim)
        except ClaimLost:
            self._claims.drop(claim)

    async def _newest_mark(self) -> int:
        """The position of our newest mark: not of one that came from another journal, or that we cannot read."""
        marks = self._journal.read(session=self._session, kinds=[self._kind.kind()], reverse=True)
        async with aclosing(marks):
            async for mark in marks:
                if isinstance(mark.entry, self._kind) and mark.lane is Lane.OUT and not mark.imported:
                    return mark.entry.position
        return 0
