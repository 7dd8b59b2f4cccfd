"""The Chat service: what shall go out is committed once and delivered in order; its port records what comes in."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import aclosing
from typing import cast

from msgspec.structs import replace

from branches.chat.drafts import ASKED_TO_SEND, SETTLED_SESSION, efferent_id, is_draft, open_drafts
from branches.chat.entries import (
    ChatActivity,
    ChatAnswer,
    ChatDelivered,
    ChatEfferent,
    ChatEfferentDraft,
    ChatQuestion,
    ChatSettled,
    ChatUndelivered,
)
from branches.chat.leaf import ActiveLeaf, ChatLeaf, DeliveryFailed, RemindingLeaf, StreamingLeaf
from branches.chat.port import Port
from branches.chat.showing import Showing
from branches.claims import Claims
from branches.service import Finished, first_error
from branches.settled import SETTLED_EVERY, Settled
from journals import Entry, Journal, Record, Unreadable, derive_id
from policies import Clock, SystemClock

_ARRIVING = (*ASKED_TO_SEND, ChatAnswer.kind())


class ChatService:
    """One chat instance over its journal and its leaf.

    Each `ChatEfferentDraft` of the `in` lane is committed as exactly one `ChatEfferent`, then delivered, then
    `ChatDelivered` is written. A crash between the last two delivers again: at least once, and exactly once on
    platforms that know the message by its id. Conversations do not wait for each other; within one, order holds.

    `forks_routed` says whether the agents hear of forks; where they do not, there are none.
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
        self._name, self._journal, self._leaf = name, journal, leaf
        self._chunks, self._clock = chunk_journal, clock or SystemClock()
        self._claims = Claims(journal, owner)
        self._port = Port(name, journal, self._claims, forks_routed=forks_routed)
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

    async def run(self, ready: Callable[[], None]) -> None:
        """Serve until cancelled. Raises `ClaimLost` when another service took a conversation over.

        Raises `Finished` when the outside has ended and what was taken until then is delivered; a draft that comes
        later is for the next start.
        """
        self._claims.clear()
        self._port.clear()
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
        await self._leaf.run(self._port, connected.set)
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
                await self._port.answer(draft.session, entry.correlation_id, told, "", derive_id(id, "undelivered"))
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
        text=entry.question,
        sender=entry.sender,
        question=entry.correlation_id,
        choices=entry.choices,
        approvers=entry.approvers,
    )
