"""Conversations that go on from others: what was said in both, and what was taken back."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection
from contextlib import aclosing
from typing import Any, NamedTuple, cast

from branches.chat.entries import ChatActivity, ChatAfferent, ChatAnswer, ChatEfferent, ChatForked
from branches.chat.leaf import ForkRefused, Remembered
from journals import Journal, Record

FORKS = 300
"""How many forks may lie behind one another: whoever reads the last one reads them all."""
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

    async def history(self, session: str, after: int = 0) -> AsyncIterator[Remembered]:
        """What was said and done in a session behind a position, and before it began in what it goes on from."""
        line = await self.line(session)
        shares = [_Shared(fork.entry.without) for fork in line]
        if line and after < line[-1].position:
            for number, fork in enumerate(line):
                async for record in self._said(fork.entry.parent, 0, fork.position):
                    if all(shared.lets(record) for shared in shares[number:]) and record.position > after:
                        yield record
        async for record in self._said(session, after, None):
            yield record

    async def line(self, session: str) -> list[Record[ChatForked]]:
        """The forks that led to a session, the first one first."""
        line: list[Record[ChatForked]] = []
        while (fork := await self.of(session)) is not None and (not line or fork.position < line[-1].position):
            line.append(fork)  # a parent that itself went on from another one later is shared as it was before
            session = fork.entry.parent
        return line[::-1]

    async def _said(self, session: str, after: int, before: int | None) -> AsyncIterator[Remembered]:
        kinds = [kind.kind() for kind in _HISTORY]
        async for record in self._journal.read(after=after, before=before, session=session, kinds=kinds):
            if isinstance(record.entry, _HISTORY):
                yield cast("Any", record)


class _Shared:
    """What one fork shares: all before the first message that was taken back, and late answers to what is shared."""

    def __init__(self, without: Collection[str]) -> None:
        self._without, self._prompts, self._cut = set(without), set[str](), False

    def lets(self, record: Remembered) -> bool:
        """Whether the next thing that was said is shared."""
        self._cut = self._cut or record.id in self._without
        if not self._cut:
            self._prompts.add(record.id)
            return True
        return isinstance(record.entry, ChatEfferent) and record.correlation_id in self._prompts
