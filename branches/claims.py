"""The sessions that one service has taken over."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from weakref import WeakValueDictionary

from journals import Claim, ClaimLost, Journal

_LIMIT = 10_000


class Claims:
    """Claims on sessions of a journal: each is taken at the session's first touch, and used again from then on.

    Those touched last are kept; one that was forgotten is taken anew. A claim that somebody newer has taken away is
    not noticed here: the journal refuses the next write with `ClaimLost`.
    """

    def __init__(self, journal: Journal, owner: str, *, limit: int = _LIMIT) -> None:
        self._journal, self._owner, self._limit = journal, owner, limit
        self._term = 0
        self._kept: OrderedDict[str, Claim] = OrderedDict()
        self._taking: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def __repr__(self) -> str:
        return f"<Claims of {self._owner} on {len(self._kept)} sessions of {self._journal.name}>"

    async def take(self, session: str) -> Claim:
        """Our claim on a session; the same one for all who ask at once. Raises what `Journal.claim` raises."""
        claim = self._kept.get(session)
        if claim is not None:
            self._kept.move_to_end(session)
            return claim
        lock = self._taking.setdefault(session, asyncio.Lock())  # gone with the last one who waits for it
        async with lock:
            claim = self._kept.get(session)
            if claim is None:
                claim = await self._journal.claim(session, self._owner, term=self._term)
                self._kept[session] = claim._replace(is_first=False)  # whoever takes it later may have written since
                if len(self._kept) > self._limit:
                    self._kept.popitem(last=False)
            return claim

    async def begin(self, session: str) -> None:
        """Forget all of them, as a restart does, and take this session, whose claim says when we began: our term.

        Who runs twice for a while, as when one gives way to the other, can tell then who is the newer one.
        """
        self.clear()
        self._term = 0
        self._term = (await self.take(session)).position

    async def lost_to_older(self, lost: ClaimLost) -> bool:
        """Whether whoever took a session away from us began before us.

        It stood still, or gives way to us and had this under way: it takes the session no second time, and nobody but
        us is left to go on with it. Says no of one that told no term.
        """
        return 0 < await self._journal.term_of(lost.newer) < self._term

    def forget(self, session: str) -> None:
        """Our claim on this session was lost: the next `take` claims it anew."""
        self._kept.pop(session, None)

    def drop(self, claim: Claim) -> None:
        """This one was lost: the next `take` claims the session anew."""
        kept = self._kept.get(claim.session)
        if kept is not None and kept.position == claim.position:
            del self._kept[claim.session]

    def clear(self) -> None:
        """Forget all of them, as a restart does."""
        self._kept.clear()
