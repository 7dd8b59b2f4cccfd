"""A conversation with an entity through its journal: ask it, wait for how it ends, ask it to stop.

It needs nothing of the entity but its journal, so it is the same whether this process lets the entity live or another,
and whatever brings the intents (PROD-1).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, Final

import msgspec

from branches.agents.crystal import Finish, Usage
from branches.agents.entries import AgentCancel, AgentPrompt, AgentResponse
from branches.agents.events import AnyEvent, Casts, follow
from branches.agents.internal import ContextFolded
from branches.agents.loom import Loom, read_loom
from branches.agents.naming import entity_id, run_id
from branches.agents.steps import answer_of
from branches.agents.utterances import SPEAKING, utterance_in
from branches.attachment import Attachment, File, take
from journals import Journal, Record, random_id

_FAR: Final = 1_000
_TOLD: Final = (*SPEAKING, ContextFolded.kind())


class InvalidCast(ValueError):
    """A cantrip cannot be cast so."""


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How an episode ended.

    `answer` is what `done` was given, or the last text; `ending` is `terminated`, `truncated` (by `ward`), `failed` or
    `cancelled`, and `error` says why where it did not end well. `turns` and `usage` are those of this episode, its
    children's not counted. `loom` has every turn of the session; only `cast` reads it, since
    nobody can afterwards. `attachments` are the files that go with the answer. `finish` says why the crystal's text
    ends where that is the answer: with `length` or `other` it was cut off, and `text` says so behind it.
    """

    answer: Any
    text: str
    ending: str
    ward: str | None
    error: str | None
    entity: str
    session: str
    prompt: str
    turns: int
    usage: Usage
    loom: Loom | None = None
    attachments: tuple[Attachment, ...] = ()
    finish: Finish | None = None


class Conversation:
    """The entity of a session, as an asker sees it: several intents, each an episode of its own."""

    def __init__(
        self,
        session: str,
        journal: Journal,
        serving: asyncio.Task[None],
        sender: str,
        *,
        origin: str | None = None,
        chunks: Journal | None = None,
    ) -> None:
        """`serving` is whatever lets it live here; it ends by an error only. `origin` says where its prompts began.

        `chunks` is the short-lived journal in which text comes in pieces.
        """
        self.session, self.journal, self._chunks = session, journal, chunks
        self._serving, self._sender, self._origin = serving, sender, origin
        self._casts = Casts(journal, session)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} with {self.id} in session {self.session}>"

    @property
    def id(self) -> str:
        """Its id (ENTITY-2)."""
        return entity_id(self.journal.name, self.session)

    async def ask(self, intent: str, *, id: str | None = None) -> Ended:
        """One episode on this intent. With the `id` of an earlier one it is not asked again.

        Raises `InvalidCast` without an intent (INTENT-1), and whatever makes the service fail.
        """
        prompt = await self.send(intent, id=id)
        return await self.ended(prompt)

    async def send(self, intent: str, *, id: str | None = None, files: Sequence[File] = ()) -> Record[Any]:
        """Hand over an intent, with files that belong to it, and do not wait. Raises `InvalidCast` without one."""
        if not isinstance(intent, str) or not intent.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidCast("intent is required: say what the entity is to do")
        taken = take(files)
        text = "\n\n".join((intent, *taken.told))
        entry = AgentPrompt(sender=self._sender, text=text, attachments=taken.images)
        id = id or random_id()
        appended = await self.journal.append(entry, session=self.session, id=id, correlation_id=id, origin=self._origin)
        return appended.record

    async def ended(self, prompt: Record[Any]) -> Ended:
        """How the episode of a prompt ends, once it has."""
        records: list[Record[Any]] = []

        async def response() -> Record[Any]:
            async with aclosing(self._behind(prompt)) as behind:
                async for record in behind:
                    if record.causation_id != prompt.id:
                        continue
                    records.append(record)
                    if isinstance(record.entry, AgentResponse):
                        return record
            raise AssertionError("a tail never ends")

        found = await self._while_serving(response())
        return self._tell(prompt, found.entry, records)

    async def _behind(self, prompt: Record[Any]) -> AsyncGenerator[Record[Any]]:
        """What the session's records behind a prompt tell of its end, those to come included.

        An old prompt's are read by the session.
        """
        after, end = prompt.position, await self.journal.end()
        if end - after > _FAR:
            read = self.journal.read(session=self.session, after=after, before=end + 1, kinds=_TOLD)
            async with aclosing(read) as records:
                async for record in records:
                    yield record
            after = end
        async with aclosing(self.journal.tail(after, session=self.session, kinds=_TOLD)) as records:
            async for record in records:
                yield record

    async def cancel(self, prompt: Record[Any] | str | None = None) -> None:
        """Ask it to stop: the episode of this prompt or prompt's id, or whatever it is at and whatever waits."""
        cancel = AgentCancel(prompt=prompt.id if isinstance(prompt, Record) else prompt)
        await self.journal.append(cancel, session=self.session, origin=self._origin)

    async def events(self, intent: str, *, id: str | None = None) -> AsyncGenerator[AnyEvent]:
        """One episode on this intent, event by event as it happens, to its final response.

        Events only inform: who stops listening changes nothing. Raises what `ask` raises.
        """
        prompt = await self.send(intent, id=id)
        async with aclosing(self.watch(prompt)) as events:
            async for event in events:
                yield event

    async def watch(self, prompt: Record[Any]) -> AsyncGenerator[AnyEvent]:
        """The same for a prompt that was sent, whatever has become of it."""
        async with aclosing(follow(self.journal, prompt, self._chunks, casts=self._casts)) as events:
            while (event := await self._while_serving(anext(events, None))) is not None:
                yield event

    async def loom(self) -> Loom:
        """Every turn of this session, of its children, and of those that it was forked from."""
        return await read_loom(self.journal, self.session)

    async def _while_serving(self, work: Any) -> Any:
        """The work's result. Raises what makes the service fail, should that come first."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait([task, self._serving], return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                self._serving.result()
            return await task
        finally:
            task.cancel()
            await asyncio.wait([task])

    def _tell(self, prompt: Record[Any], response: AgentResponse, records: list[Record[Any]]) -> Ended:
        run = run_id(prompt.id)
        said = [one for record in records if (one := utterance_in(record)) is not None and one.run == run]
        folds = [entry for record in records if isinstance(entry := record.entry, ContextFolded) and entry.run == run]
        ended_well = response.ending == "terminated"
        return Ended(
            answer=answer_of(response) if ended_well else None,
            text=response.text,
            ending=response.ending,
            ward=response.ward,
            error=None if ended_well else response.text,
            entity=self.id,
            session=self.session,
            prompt=prompt.id,
            turns=len(said),
            attachments=response.attachments,
            finish=None if response.last is None else response.last.finish,
            usage=sum((one.usage for one in (*said, *folds)), Usage()),
        )
