"""The Chat service: what comes in is recorded, what shall go out is committed once and delivered in order."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from typing import cast

from branches.chat.entries import (
    ChatAfferent,
    ChatChunk,
    ChatDelivered,
    ChatEfferent,
    ChatEfferentDraft,
    ChatSettled,
    ChatStreamCompleted,
    ChatUndelivered,
)
from branches.chat.leaf import ChatLeaf, DeliveryFailed, StreamingLeaf
from branches.service import Finished, first_error
from journals import Claim, Entry, IdConflict, Journal, Lane, Record, Unreadable, derive_id, random_id

SETTLED_SESSION = "chat.settled"
SETTLED_EVERY = 500
_CLAIMS = 10_000


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
        settled_every: int = SETTLED_EVERY,
    ) -> None:
        self._name, self._journal, self._leaf, self._owner = name, journal, leaf, owner
        self._chunks = chunk_journal
        self._settled_every = settled_every
        self._claims: OrderedDict[str, Claim] = OrderedDict()
        self._claiming = asyncio.Lock()
        self._waiting: dict[str, deque[Record[ChatEfferentDraft]]] = {}
        self._open: dict[int, None] = {}
        self._seen = 0
        self._settled = 0
        self._idle = asyncio.Event()

    def __repr__(self) -> str:
        return f"<ChatService {self._name} {len(self._open)} drafts in {len(self._waiting)} conversations>"

    @property
    def name(self) -> str:
        """The name of the chat instance."""
        return self._name

    async def receive(
        self, conversation: str, sender: str, text: str, message_id: str | None = None
    ) -> Record[ChatAfferent]:
        """See `ChatPort.receive`."""
        await self._claim(conversation)
        id = random_id() if message_id is None else derive_id("afferent", self._name, message_id)
        entry = ChatAfferent(sender=sender, text=text, message_id=message_id)
        try:
            appended = await self._journal.append(
                entry, session=conversation, id=id, correlation_id=id, origin=self._name
            )
        except IdConflict as conflict:  # the platform sent an edited message under its old id: the first one counts
            first = await self._journal.get(conflict.position)
            return cast("Record[ChatAfferent]", first)
        return cast("Record[ChatAfferent]", appended.record)

    async def run(self, ready: Callable[[], None]) -> None:
        """Serve until cancelled. Raises `Finished` when the outside ends, `ClaimLost` when another one took over."""
        self._claims.clear()
        self._waiting.clear()
        self._open.clear()
        connected = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as tasks:
                unsettled = await self._unsettled()
                tasks.create_task(self._listen(connected.set))
                await connected.wait()
                for draft in unsettled:
                    self._take(draft, tasks)
                if self._chunks is not None and isinstance(self._leaf, StreamingLeaf):
                    tasks.create_task(self._show(self._chunks, self._leaf, await self._chunks.end()))
                ready()
                async for draft in self._drafts(self._journal.tail(self._seen, kinds=[ChatEfferentDraft.kind()])):
                    self._take(draft, tasks)
        except BaseExceptionGroup as group:
            raise first_error(group) from None

    async def _listen(self, connected: Callable[[], None]) -> None:
        await self._leaf.run(self, connected)
        while self._open:
            self._idle.clear()
            await self._idle.wait()
        raise Finished(self._name)

    async def _unsettled(self) -> list[Record[ChatEfferentDraft]]:
        """The drafts that were never delivered, found by reading what follows the last `ChatSettled`."""
        settled = await self._journal.last(session=SETTLED_SESSION, kinds=[ChatSettled.kind()])
        self._settled = self._seen = 0 if settled is None else cast("ChatSettled", settled.entry).position
        drafts: list[Record[ChatEfferentDraft]] = []
        done: set[tuple[str, str]] = set()
        outcomes = [ChatDelivered.kind(), ChatUndelivered.kind()]
        records = self._journal.read(after=self._seen, kinds=[ChatEfferentDraft.kind(), *outcomes])
        async for record in records:
            if isinstance(record.entry, ChatDelivered | ChatUndelivered):
                done.add((record.session, record.entry.efferent))
            elif _is_ours(record):
                drafts.append(cast("Record[ChatEfferentDraft]", record))
            self._seen = record.position
        return [draft for draft in drafts if (draft.session, _efferent_id(draft)) not in done]

    async def _drafts(self, records: AsyncIterator[Record[Entry]]) -> AsyncIterator[Record[ChatEfferentDraft]]:
        async for record in records:
            self._seen = record.position
            if _is_ours(record):
                yield cast("Record[ChatEfferentDraft]", record)

    def _take(self, draft: Record[ChatEfferentDraft], tasks: asyncio.TaskGroup) -> None:
        """Queue the draft behind the others of its conversation."""
        self._open[draft.position] = None
        queue = self._waiting.get(draft.session)
        if queue is not None:
            queue.append(draft)
            return
        queue = self._waiting[draft.session] = deque([draft])
        tasks.create_task(self._work(draft.session, queue))

    async def _work(self, session: str, queue: deque[Record[ChatEfferentDraft]]) -> None:
        while queue:
            draft = queue.popleft()
            await self._deliver(draft)
            del self._open[draft.position]
            await self._note_settled()
        del self._waiting[session]
        if not self._open:
            self._idle.set()

    async def _deliver(self, draft: Record[ChatEfferentDraft]) -> None:
        claim = await self._claim(draft.session)
        if isinstance(draft.entry, Unreadable):
            unreadable = ChatUndelivered(efferent=_efferent_id(draft), error=draft.entry.reason)
            await self._append_outcome(unreadable, draft, claim)
            return
        entry = ChatEfferent(text=draft.entry.text, sender=draft.entry.sender)
        committed = await self._journal.append(
            entry, session=draft.session, id=_efferent_id(draft), cause=draft, expect=claim
        )
        message = cast("Record[ChatEfferent]", committed.record)
        try:
            receipt = await self._leaf.deliver(message)
        except DeliveryFailed as failure:
            await self._append_outcome(ChatUndelivered(efferent=message.id, error=str(failure)), message, claim)
        else:
            await self._append_outcome(ChatDelivered(efferent=message.id, receipt=receipt), message, claim)

    async def _append_outcome(
        self, outcome: ChatDelivered | ChatUndelivered, cause: Record[Entry], claim: Claim
    ) -> None:
        id = derive_id("delivery", outcome.efferent)
        await self._journal.append(outcome, session=cause.session, id=id, cause=cause, expect=claim)

    async def _claim(self, session: str) -> Claim:
        """Our claim on a conversation, taken at its first touch; those touched last are remembered."""
        claim = self._claims.get(session)
        if claim is not None:
            self._claims.move_to_end(session)
            return claim
        async with self._claiming:
            if session not in self._claims:
                self._claims[session] = await self._journal.claim(session, self._owner)
                if len(self._claims) > _CLAIMS:
                    self._claims.popitem(last=False)
            return self._claims[session]

    async def _note_settled(self) -> None:
        """Every so often, write down how far everything is settled."""
        settled = next(iter(self._open), self._seen + 1) - 1
        if settled - self._settled < self._settled_every:
            return
        self._settled = settled
        claim = await self._claim(SETTLED_SESSION)
        await self._journal.append(
            ChatSettled(position=settled), session=SETTLED_SESSION, id=derive_id("settled", settled), expect=claim
        )

    async def _show(self, journal: Journal, leaf: StreamingLeaf, after: int) -> None:
        async for chunk in journal.tail(after, kinds=[ChatChunk.kind(), ChatStreamCompleted.kind()]):
            if isinstance(chunk.entry, ChatChunk | ChatStreamCompleted):
                await leaf.show(cast("Record[ChatChunk | ChatStreamCompleted]", chunk))


def _is_ours(record: Record[Entry]) -> bool:
    """Whether a draft is ours to deliver; one that was imported from elsewhere is not."""
    return record.lane is Lane.IN and not record.imported


def _efferent_id(draft: Record[ChatEfferentDraft]) -> str:
    return derive_id("efferent", draft.id)
