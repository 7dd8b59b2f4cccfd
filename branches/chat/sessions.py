"""The sessions of a conversation: it begins with one of its own name, and may begin anew with another."""

from __future__ import annotations

from contextlib import aclosing

from branches.chat.entries import ChatBegunAnew
from branches.claims import Claims
from journals import Journal, Lane

_KEPT = 10_000
_MARK = "~"


def conversation_of(session: str) -> str:
    """The conversation that a session belongs to."""
    return session.partition(_MARK)[0]


def session_of(conversation: str, id: str) -> str:
    """The session that a conversation begins anew with under this id."""
    return f"{conversation}{_MARK}{id[:8]}"


class Sessions:
    """The newest session of each conversation, read from the journal when it is first asked for."""

    def __init__(self, journal: Journal, claims: Claims) -> None:
        self._journal, self._claims = journal, claims
        self._newest: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<Sessions of {len(self._newest)} conversations>"

    async def of(self, conversation: str) -> str:
        """The session that this conversation is in now."""
        known = self._newest.get(conversation)
        if known is None:
            known = await self._read(conversation)
            if len(self._newest) >= _KEPT:
                del self._newest[next(iter(self._newest))]
            known = self._newest.setdefault(conversation, known)
        return known

    async def begin_anew(self, conversation: str, id: str) -> str:
        """A new session, recorded under this id; the one of the first time when the id was used."""
        await self.of(conversation)
        session = session_of(conversation, id)
        beginnings = f"{conversation}{_MARK}"
        claim = await self._claims.take(beginnings)
        appended = await self._journal.append(ChatBegunAnew(session=session), session=beginnings, id=id, expect=claim)
        if appended.created:
            self._newest[conversation] = session
        else:
            self._newest.pop(conversation, None)  # whoever recorded it may know of a newer one: the journal tells
        return session

    def clear(self) -> None:
        """Forget all of them, as a restart does."""
        self._newest.clear()

    async def _read(self, conversation: str) -> str:
        beginnings = f"{conversation}{_MARK}"  # by themselves, so that a long conversation is not read for them
        begun = self._journal.read(session=beginnings, kinds=[ChatBegunAnew.kind()], reverse=True)
        async with aclosing(begun):
            async for record in begun:
                if isinstance(record.entry, ChatBegunAnew) and record.lane is Lane.OUT and not record.imported:
                    return record.entry.session
        return conversation
