"""Conversations that go on from others: what was said in both, and what was taken back."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, NamedTuple, cast

from branches.chat.entries import ChatActivity, ChatAfferent, ChatAnswer, ChatEfferent, ChatForked
from branches.chat.leaf import ForkRefused, Remembered
from journals import Journal, Record

_HISTORY = (ChatAfferent, ChatEfferent, ChatAnswer, ChatActivity)
_KEPT = 10_000
_WISH = re.compile(r"(?:(?P<back>\d{1,4})(?:\s+|$))?(?P<text>.*)", re.DOTALL)


class Wish(NamedTuple):
    """What a person wants who types `/fork`: from how many messages back, and what is said instead of them."""

    back: int = 0
    text: str = ""

    @property
    def place(self) -> str:
        """Where the conversation goes on from, for people."""
        return f"{self.back} message{'' if self.back == 1 else 's'} back" if self.back else "here"


def wish(typed: str) -> Wish:
    """What stands behind `/fork`: nothing, `2`, `2 and now …`, or a text alone."""
    found = _WISH.fullmatch(typed.strip())
    return Wish() if found is None else Wish(int(found["back"] or 0), found["text"] or "")


class Forks:
    """Which sessions go on from which, read from the journal when it is first asked for."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._known: dict[str, Record[ChatForked] | None] = {}

    def __repr__(self) -> str:
        return f"<Forks of {self._journal.name}, {len(self._known)} sessions known>"

    def clear(self) -> None:
        """Forget all of them, as a restart does."""
        self._known.clear()

    async def of(self, session: str) -> Record[ChatForked] | None:
        """How this session began, if it goes on from another one. Its first record says so."""
        if session not in self._known:
            async with aclosing(self._journal.read(session=session)) as records:
                async for record in records:
                    if len(self._known) >= _KEPT:
                        del self._known[next(iter(self._known))]
                    begins = isinstance(record.entry, ChatForked)
                    self._known[session] = cast("Record[ChatForked]", record) if begins else None
                    break
        return self._known.get(session)

    async def newest(self, session: str, count: int) -> tuple[str, ...]:
        """The ids of so many of the last messages of people, in order, also those of before the session began.

        Raises `ForkRefused` where there are not so many.
        """
        found: list[str] = []
        if count > 0:
            said = [record.id async for record in self.history(session) if isinstance(record.entry, ChatAfferent)]
            found = said[-count:]
        if len(found) < count:
            have = f"{len(found)} message{'' if len(found) == 1 else 's'}"
            raise ForkRefused(f"this conversation has {have}, so it cannot go back {count}")
        return tuple(found)

    async def history(self, session: str, after: int = 0, before: int | None = None) -> AsyncIterator[Remembered]:
        """What was said and done in a session between two positions, and before it began in what it goes on from."""
        fork = await self.of(session)
        if fork is not None and after < fork.position:
            async for record in self._shared(fork):
                if record.position > after:
                    yield record
        kinds = [kind.kind() for kind in _HISTORY]
        async for record in self._journal.read(after=after, before=before, session=session, kinds=kinds):
            if isinstance(record.entry, _HISTORY):
                yield cast("Any", record)

    async def _shared(self, fork: Record[ChatForked]) -> AsyncIterator[Remembered]:
        """What a fork shares: all before the first message that was taken back, and late answers to what is shared."""
        without, shared, cut = set(fork.entry.without), set[str](), False
        async for record in self.history(fork.entry.parent, before=fork.position):
            cut = cut or record.id in without
            if not cut:
                shared.add(record.id)
                yield record
            elif isinstance(record.entry, ChatEfferent) and record.correlation_id in shared:
                yield record
