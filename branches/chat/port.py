"""The port: what a leaf hands messages to, over the journal of its chat."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import cast

from branches.attachment import Attachment
from branches.chat.entries import (
    ChatAfferent,
    ChatAnswer,
    ChatDelivered,
    ChatEfferent,
    ChatEfferentDraft,
    ChatForked,
    ChatUndelivered,
)
from branches.chat.forks import FORKS, Forks
from branches.chat.leaf import ForkRefused, Remembered
from branches.chat.sessions import Sessions, conversation_of, session_of
from branches.chat.taken import Taken
from branches.claims import Claims
from journals import IdConflict, Journal, Record, derive_id, random_id

_FROM_OUTSIDE = (ChatAfferent.kind(), ChatAnswer.kind())
_OUTCOMES = (ChatDelivered.kind(), ChatUndelivered.kind())
_PROMPTS = 200
_LOOKED_BACK = 8
"""In so many earlier sessions of a conversation a message is looked for: a platform repeats what was said lately."""


class Port:
    """Records what comes from outside, and tells what was recorded; see `ChatPort`.

    `forks_routed` says whether the agents hear of forks; where they do not, there are none.
    """

    def __init__(self, name: str, journal: Journal, claims: Claims, *, forks_routed: bool) -> None:
        self._name, self._journal, self._claims = name, journal, claims
        self._sessions, self._forks = Sessions(journal, claims), Forks(journal)
        self._forks_routed = forks_routed

    def __repr__(self) -> str:
        return f"<Port of {self._name}>"

    def clear(self) -> None:
        """Forget what was read of the journal, as a restart does."""
        self._sessions.clear()
        self._forks.clear()

    async def receive(
        self,
        conversation: str,
        sender: str,
        text: str,
        message_id: str | None = None,
        attachments: Sequence[Attachment] = (),
    ) -> Record[ChatAfferent] | Record[ChatAnswer]:
        """See `ChatPort.receive`."""
        id = self._said_id(message_id)
        entry = ChatAfferent(sender=sender, text=text, message_id=message_id, attachments=tuple(attachments))
        *earlier, session = await self._sessions.all_of(conversation)
        if message_id is not None:
            lately = earlier[-_LOOKED_BACK:]
            for before, was_said in zip(lately, await self._said_in(lately, id), strict=True):
                session = before if was_said else session  # said again, after what was said next had begun anew
        return await self._record(entry, session, id, id)

    async def _said_in(self, sessions: Sequence[str], id: str) -> list[bool]:
        return await asyncio.gather(*(self._journal.has(id, session) for session in sessions))

    async def answer(
        self, session: str, question: str, text: str, by: str, message_id: str | None = None
    ) -> Record[ChatAfferent] | Record[ChatAnswer]:
        """See `ChatPort.answer`."""
        entry = ChatAnswer(correlation_id=question, answer=text, by=by)
        return await self._record(entry, session, self._said_id(message_id), question)

    def history(self, conversation: str, after: int = 0) -> AsyncIterator[Remembered]:
        """See `ChatPort.history`."""
        return self._forks.history(conversation, after)

    async def begin_anew(self, conversation: str, message_id: str) -> str:
        """See `ChatPort.begin_anew`."""
        return await self._sessions.begin_anew(conversation, derive_id("anew", self._name, message_id))

    async def taken_since(self, time: float) -> Taken:
        """See `ChatPort.taken_since`."""
        conversations, ids, answered = set[str](), set[str](), set[str | None]()
        waiting: list[Record[ChatAfferent]] = []
        async with aclosing(self._journal.read(reverse=True)) as records:
            async for record in records:
                if record.time < time:
                    if record.imported:  # it came later, and what was said before it may have been said since
                        continue
                    break
                if record.kind in _FROM_OUTSIDE:
                    conversations.add(conversation_of(record.session))
                    ids.add(record.id)
                if record.kind in _OUTCOMES:
                    answered.add(record.correlation_id)
                elif isinstance(record.entry, ChatAfferent) and not record.imported and record.id not in answered:
                    waiting.append(cast("Record[ChatAfferent]", record))
        return Taken(conversations, ids, waiting[::-1], self._said_id)

    async def fork(self, conversation: str, message_id: str, *, back: int = 0, into: str | None = None) -> str:
        """See `ChatPort.fork`."""
        id = derive_id("fork", self._name, message_id)
        session = session_of(conversation, id) if into is None else into
        begun = await self._forks.of(session)
        if begun is None or begun.id != id:
            if not self._forks_routed:
                raise ForkRefused("this coven does not fork: its covenant has no route `ChatForked -> AgentFork`")
            if await self._journal.last(session=session) is not None:
                raise ForkRefused("the conversation that shall go on from here has begun already")
            parent = await self._sessions.of(conversation)
            line = await self._forks.line(parent)
            if session == parent or any(fork.entry.parent == session for fork in line):
                raise ForkRefused("a conversation cannot go on from itself")
            if len(line) >= FORKS:
                raise ForkRefused(f"this conversation is a fork of a fork, {FORKS} times over: begin a new one")
            entry = ChatForked(parent=parent, without=await self._forks.newest(parent, back))
            await self._claims.take(session)
            await self._journal.append(entry, session=session, id=id, correlation_id=id, origin=self._name)
        if into is None:
            await self._sessions.begin_anew(conversation, id)
        return session

    async def unanswered(self, session: str) -> set[str]:
        """See `ChatPort.unanswered`."""
        found: set[str] = set()
        kinds = [ChatAfferent.kind(), ChatEfferentDraft.kind()]
        async with aclosing(self._journal.read(session=session, kinds=kinds)) as records:
            async for record in records:
                if record.kind == ChatAfferent.kind() and not record.imported:
                    found.add(record.id)
                elif record.correlation_id is not None:
                    found.discard(record.correlation_id)
        return found

    async def prompt_of(self, message: Record[ChatEfferent]) -> Record[ChatAfferent] | None:
        """See `ChatPort.prompt_of`. It is looked for among the newest of its conversation."""
        if message.correlation_id is None:
            return None
        prompts = self._journal.read(session=message.session, kinds=[ChatAfferent.kind()], reverse=True)
        looked = 0
        async with aclosing(prompts):
            async for prompt in prompts:
                looked += 1
                if prompt.id == message.correlation_id and isinstance(prompt.entry, ChatAfferent):
                    return cast("Record[ChatAfferent]", prompt)
                if looked == _PROMPTS:
                    return None
        return None

    def _said_id(self, message_id: str | None) -> str:
        """The id of what a message is recorded as: a prompt or an answer, whichever it was first."""
        return random_id() if message_id is None else derive_id("afferent", self._name, message_id)

    async def _record(
        self, entry: ChatAfferent | ChatAnswer, session: str, id: str, correlation_id: str
    ) -> Record[ChatAfferent] | Record[ChatAnswer]:
        await self._claims.take(session)
        try:
            appended = await self._journal.append(
                entry, session=session, id=id, correlation_id=correlation_id, origin=self._name
            )
        except IdConflict as conflict:  # the platform sent an edited message under its old id: the first one counts
            return cast("Record[ChatAfferent] | Record[ChatAnswer]", await self._journal.get(conflict.position))
        return cast("Record[ChatAfferent] | Record[ChatAnswer]", appended.record)
