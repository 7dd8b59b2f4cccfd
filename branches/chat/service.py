"""The Chat service: what comes in is recorded, what shall go out is committed once and delivered in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import cast

from msgspec.structs import replace

from branches.attachment import Attachment
from branches.chat.drafts import ASKED_TO_SEND, SETTLED_SESSION, efferent_id, is_draft, open_drafts
from branches.chat.entries import (
    ChatActivity,
    ChatAfferent,
    ChatAnswer,
    ChatDelivered,
    ChatEfferent,
    ChatEfferentDraft,
    ChatForked,
    ChatQuestion,
    ChatSettled,
    ChatUndelivered,
)
from branches.chat.forks import FORKS, Forks
from branches.chat.leaf import (
    ActiveLeaf,
    ChatLeaf,
    DeliveryFailed,
    ForkRefused,
    Remembered,
    RemindingLeaf,
    StreamingLeaf,
)
from branches.chat.sessions import Sessions, conversation_of, session_of
from branches.chat.showing import Showing
from branches.chat.taken import Taken
from branches.claims import Claims
from branches.service import Finished, first_error
from branches.settled import SETTLED_EVERY, Settled
from journals import Entry, IdConflict, Journal, Record, Unreadable, derive_id, random_id
from policies import Clock, SystemClock

_ARRIVING = (*ASKED_TO_SEND, ChatAnswer.kind())
_FROM_OUTSIDE = (ChatAfferent.kind(), ChatAnswer.kind())
_OUTCOMES = (ChatDelivered.kind(), ChatUndelivered.kind())
_PROMPTS = 200


class ChatService:
    """One chat instance over its journal and its leaf.

    Each `ChatEfferentDraft` of the `in` lane is committed as exactly one `ChatEfferent`, then delivered, then
    `ChatDelivered` is written. A crash between the last two delivers again: at least once, and exactly once on
    platforms that know the message by its id. Conversations do not wait for each other; within one, order holds.
    """

    def __init__(
        self,
        name: str,
        journal: Journal,
        leaf: ChatLeaf,
        *,
        owner: str,
        chunk_journal: Journal | None = None,
        forks_routed: bool = True,
        settled_every: int = SETTLED_EVERY,
        clock: Clock | None = None,
    ) -> None:
        """`forks_routed` says whether the agents hear of forks; where they do not, there are none."""
        self._name, self._journal, self._leaf = name, journal, leaf
        self._chunks, self._clock = chunk_journal, clock or SystemClock()
        self._claims = Claims(journal, owner)
        self._sessions, self._forks = Sessions(journal, self._claims), Forks(journal)
        self._forks_routed = forks_routed
        self._settled = Settled(journal, self._claims, ChatSettled, SETTLED_SESSION, every=settled_every)
        self._waiting: dict[str, deque[Record[Entry]]] = {}
        self._asked: dict[str, int] = {}
        self._idle = asyncio.Event()

    def __repr__(self) -> str:
        return f"<ChatService {self._name} {self._settled.waiting} drafts in {len(self._waiting)} conversations>"

    @property
    def name(self) -> str:
        """The name of the chat instance."""
        return self._name

    async def receive(
        self,
        conversation: str,
        sender: str,
        text: str,
        message_id: str | None = None,
        attachments: Sequence[Attachment] = (),
    ) -> Record[ChatAfferent] | Record[ChatAnswer]:
        """See `ChatPort.receive`."""
        session = await self._sessions.of(conversation)
        await self._claims.take(session)
        id = self._said_id(message_id)
        entry = ChatAfferent(sender=sender, text=text, message_id=message_id, attachments=tuple(attachments))
        try:
            appended = await self._journal.append(entry, session=session, id=id, correlation_id=id, origin=self._name)
        except IdConflict as conflict:  # the platform sent an edited message under its old id: the first one counts
            return cast("Record[ChatAfferent] | Record[ChatAnswer]", await self._journal.get(conflict.position))
        return cast("Record[ChatAfferent]", appended.record)

    async def answer(
        self, session: str, question: str, text: str, by: str, message_id: str | None = None
    ) -> Record[ChatAfferent] | Record[ChatAnswer]:
        """See `ChatPort.answer`."""
        await self._claims.take(session)
        id = self._said_id(message_id)
        entry = ChatAnswer(correlation_id=question, answer=text, by=by)
        try:
            appended = await self._journal.append(
                entry, session=session, id=id, correlation_id=question, origin=self._name
            )
        except IdConflict as conflict:
            return cast("Record[ChatAfferent] | Record[ChatAnswer]", await self._journal.get(conflict.position))
        return cast("Record[ChatAnswer]", appended.record)

    def _said_id(self, message_id: str | None) -> str:
        """The id of what a message is recorded as: a prompt or an answer, whichever it was first."""
        return random_id() if message_id is None else derive_id("afferent", self._name, message_id)

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

    async def run(self, ready: Callable[[], None]) -> None:
        """Serve until cancelled. Raises `ClaimLost` when another service took a conversation over.

        Raises `Finished` when the outside has ended and what was taken until then is delivered; a draft that comes
        later is for the next start.
        """
        self._claims.clear()
        self._sessions.clear()
        self._forks.clear()
        self._waiting.clear()
        self._asked.clear()
        connected = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as tasks:
                began = await self._journal.end()
                drafts, questions = await open_drafts(self._settled)
                outside = tasks.create_task(self._listen(connected))
                await connected.wait()
                for question in questions:
                    await self._remind(question)
                for draft in drafts:
                    self._take(draft, tasks)
                if self._chunks is not None and isinstance(self._leaf, StreamingLeaf):
                    showing = Showing(self._leaf, self._clock)
                    tasks.create_task(showing.run(self._chunks, await self._chunks.end()))
                following = tasks.create_task(self._follow(tasks, began))
                ready()
                await asyncio.wait([outside])
                following.cancel()
                await asyncio.wait([following])  # from here on nothing is taken: a group that ends takes no tasks
                await self._delivered()
                raise Finished(self._name)
        except BaseExceptionGroup as group:
            raise first_error(group) from None

    async def _listen(self, connected: asyncio.Event) -> None:
        await self._leaf.run(self, connected.set)
        connected.set()  # also if the outside ended before the leaf could say so

    async def _follow(self, tasks: asyncio.TaskGroup, began: int) -> None:
        """Take every draft that comes, and what is done behind the position where we began."""
        kinds = (*_ARRIVING, ChatActivity.kind()) if isinstance(self._leaf, ActiveLeaf) else _ARRIVING
        async with aclosing(self._journal.tail(self._settled.seen, kinds=kinds)) as records:
            async for record in records:
                asks = is_draft(record)
                self._settled.see(record.position, asks=asks)
                if asks or (isinstance(record.entry, ChatActivity) and record.position > began):
                    self._take(record, tasks)
                elif isinstance(record.entry, ChatAnswer):
                    asked = self._asked.pop(record.entry.correlation_id, None)
                    if asked is not None:
                        await self._settled.close(asked)

    def _take(self, draft: Record[Entry], tasks: asyncio.TaskGroup) -> None:
        """Queue a draft or an activity behind the others of its conversation."""
        queue = self._waiting.get(draft.session)
        if queue is not None:
            queue.append(draft)
            return
        queue = self._waiting[draft.session] = deque([draft])
        tasks.create_task(self._work(draft.session, queue))

    async def _work(self, session: str, queue: deque[Record[Entry]]) -> None:
        while queue:
            draft = queue.popleft()
            if isinstance(draft.entry, ChatActivity):
                if isinstance(self._leaf, ActiveLeaf):
                    await self._leaf.show_activity(cast("Record[ChatActivity]", draft))
                continue
            question = draft.entry if isinstance(draft.entry, ChatQuestion) else None
            if question is not None:  # it is settled when it is answered, which may be before we hear that it was sent
                self._asked[question.correlation_id] = draft.position
            await self._deliver(draft)
            if question is None:
                await self._settled.close(draft.position)
        del self._waiting[session]
        if not self._waiting:
            self._idle.set()

    async def _delivered(self) -> None:
        while self._waiting:
            self._idle.clear()
            await self._idle.wait()

    async def _deliver(self, draft: Record[Entry]) -> None:
        entry, id = draft.entry, efferent_id(draft.id)
        if not isinstance(entry, ChatEfferentDraft | ChatQuestion):
            reason = entry.reason if isinstance(entry, Unreadable) else f"it is a {draft.kind}"
            await self._note(ChatUndelivered(efferent=id, error=reason), draft)
            return
        claim = await self._claims.take(draft.session)
        committed = await self._journal.append(_message(entry), session=draft.session, id=id, cause=draft, expect=claim)
        message = cast("Record[ChatEfferent]", committed.record)
        try:
            receipt = await self._leaf.deliver(message)
        except DeliveryFailed as failure:
            await self._note(ChatUndelivered(efferent=id, error=str(failure)), message)
            if isinstance(entry, ChatQuestion):
                told = f"nobody could be asked: {failure}"
                await self.answer(draft.session, entry.correlation_id, told, "", derive_id(id, "undelivered"))
        else:
            await self._note(ChatDelivered(efferent=id, receipt=receipt), message)

    async def _remind(self, question: Record[Entry]) -> None:
        """A question of an earlier start is still open: a leaf that keeps nothing of it shows it again."""
        assert isinstance(question.entry, ChatQuestion)
        self._asked[question.entry.correlation_id] = question.position
        if isinstance(self._leaf, RemindingLeaf):
            message = replace(question, id=efferent_id(question.id), entry=_message(question.entry))
            await self._leaf.remind(cast("Record[ChatEfferent]", message))

    async def _note(self, outcome: ChatDelivered | ChatUndelivered, cause: Record[Entry]) -> None:
        id = derive_id("delivery", outcome.efferent)
        claim = await self._claims.take(cause.session)
        await self._journal.append(outcome, session=cause.session, id=id, cause=cause, expect=claim)


def _message(entry: ChatEfferentDraft | ChatQuestion) -> ChatEfferent:
    if isinstance(entry, ChatEfferentDraft):
        return ChatEfferent(text=entry.text, sender=entry.sender, attachments=entry.attachments)
    return ChatEfferent(
        text=entry.question, question=entry.correlation_id, choices=entry.choices, approvers=entry.approvers
    )
