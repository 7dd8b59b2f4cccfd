"""The sessions of a conversation: it begins with one of its own name, and may begin anew with another."""

from __future__ import annotations

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
    """The sessions of each conversation, read from the journal when it is first asked for."""

    def __init__(self, journal: Journal, claims: Claims) -> None:
        self._journal, self._claims = journal, claims
        self._known: dict[str, tuple[str, ...]] = {}

    def __repr__(self) -> str:
        return f"<Sessions of {len(self._known)} conversations>"

    async def of(self, conversation: str) -> str:
        """The session that this conversation is in now."""
        return (await self.all_of(conversation))[-1]

    async def all_of(self, conversation: str) -> tuple[str, ...]:
        """The sessions that this conversation has been in, oldest first; the last one is that of now."""
        known = self._known.get(conversation)
        if known is None:
            known = await self._read(conversation)
            if len(self._known) >= _KEPT:
                del self._known[next(iter(self._known))]
            known = self._known.setdefault(conversation, known)
        return known

    async def begin_anew(self, conversation: str, id: str) -> str:
        """A new session, recorded under this id; the one of the first time when the id was used."""
        before = await self.all_of(conversation)
        session = session_of(conversation, id)
        beginnings = f"{conversation}{_MARK}"
        claim = await self._claims.take(beginnings)
        appended = await self._journal.append(ChatBegunAnew(session=session), session=beginnings, id=id, expect=claim)
        if appended.created:
            self._known[conversation] = (*self._known.get(conversation, before), session)
        else:
            self._known.pop(conversation, None)  # whoever recorded it may know of a newer one: the journal tells
        return session

    def clear(self) -> None:
        """Forget all of them, as a restart does."""
        self._known.clear()

    async def _read(self, conversation: str) -> tuple[str, ...]:
        beginnings = f"{conversation}{_MARK}"  # by themselves, so that a long conversation is not read for them
        begun = [
            record.entry.session
            async for record in self._journal.read(session=beginnings, kinds=[ChatBegunAnew.kind()])
            if isinstance(record.entry, ChatBegunAnew) and record.lane is Lane.OUT and not record.imported
        ]
        return (conversation, *begun)
