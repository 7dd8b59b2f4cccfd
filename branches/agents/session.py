"""A session: one conversation's entity in this process, and the prompts that wait for it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import cast as type_cast

import msgspec

from branches.agents.cantrip import Cantrip, cast_entry, recall
from branches.agents.chunks import ChunkWriter, Stream
from branches.agents.codec import AgentsCodec, ending
from branches.agents.context import EntityContext, fold_episode
from branches.agents.entries import AgentPrompt, AgentResponse
from branches.agents.episode import Episode
from branches.agents.internal import CrystalCalled, EntityCast
from branches.agents.naming import entity_id, run_id
from branches.agents.unanswered import is_prompt
from branches.claims import Claims
from branches.settled import Settled
from journals import Claim, Entry, Journal, Lane, Record, Unreadable, derive_id
from policies import Call, Clock, NonDeterminismError, Recorder, Run, fingerprint

_log = logging.getLogger("coven.agents")


class SessionUnreadable(Exception):
    """A session holds an entry that this program cannot read, so that nobody knows what has happened in it."""

    def __init__(self, session: str, entry: Unreadable) -> None:
        super().__init__(f"session {session!r} is left alone: its {entry.of_kind} cannot be read: {entry.reason}")
        self.session, self.entry = session, entry


class Workshop(msgspec.Struct, frozen=True, kw_only=True):
    """What all sessions of one agents instance share."""

    name: str
    journal: Journal
    claims: Claims
    settled: Settled
    cantrip: Cantrip
    clock: Clock
    tool_timeout_s: float
    chunks: ChunkWriter | None


class Session:
    """One entity and its queue of prompts. It answers them one after the other, each in an episode of its own."""

    def __init__(self, name: str, shop: Workshop) -> None:
        self.name, self._shop = name, shop
        self._claim: Claim | None = None
        self._loaded_to: int | None = None
        self._arrived: list[Record[Entry]] = []
        self._prompts: deque[Record[AgentPrompt]] = deque()
        self._unfinished: list[Record[Entry]] = []
        self._context = EntityContext()
        self._cast: EntityCast | None = None
        self._recorder: Recorder | None = None

    def __repr__(self) -> str:
        state = "idle" if self._recorder is None else "at work"
        return f"<Session {self.name} {state}, {len(self._prompts)} prompts waiting, {self._context!r}>"

    def take(self, record: Record[Entry]) -> None:
        """Take in what the journal's tail brings; never waits."""
        if self._loaded_to is None:
            self._arrived.append(record)
        elif record.position > self._loaded_to:
            self._sort(record)

    async def work(self, loading: asyncio.Semaphore) -> None:
        """Answer every prompt that waits; `loading` bounds how many sessions are read at once.

        Raises `ClaimLost`, `SessionUnreadable`, and what the journal raises.
        """
        if self._loaded_to is None:
            async with loading:
                self._claim = await self._shop.claims.take(self.name)
                await self._load()
        while self._prompts:
            prompt = self._prompts.popleft()
            await self._answer(prompt)
            await self._shop.settled.close(prompt.position)

    @property
    def has_work(self) -> bool:
        """Whether prompts wait, or may wait in what was not read yet."""
        return bool(self._prompts) or self._loaded_to is None

    def _sort(self, record: Record[Entry]) -> None:
        if isinstance(record.entry, AgentPrompt):
            if is_prompt(record):
                self._prompts.append(record)
        elif self._recorder is not None:
            self._recorder.observe(record)
        else:
            self._unfinished.append(record)

    async def _load(self) -> None:
        """Fold what the journal has of this session: finished episodes into the context, the rest to go on with."""
        prompts: dict[str, Record[AgentPrompt]] = {}
        since: list[Record[Entry]] = []
        position = 0
        async for record in self._shop.journal.read(session=self.name):
            position = record.position
            entry = record.entry
            if isinstance(entry, Unreadable) and record.lane is Lane.OUT:
                raise SessionUnreadable(self.name, entry)
            if isinstance(entry, AgentPrompt):
                prompts[record.id] = type_cast("Record[AgentPrompt]", record)
            elif isinstance(entry, EntityCast):
                self._cast = entry
            elif isinstance(entry, AgentResponse):
                prompt = prompts.pop(record.causation_id or "", None)
                if prompt is not None and self._cast is not None:
                    fold_episode(self._context, self._cast, run_id(prompt.id), prompt.entry.text, [*since, record])
                since = []
            else:
                since.append(record)
        self._prompts.extend(prompt for prompt in prompts.values() if is_prompt(prompt))
        self._unfinished = since
        self._loaded_to = position
        arrived, self._arrived = self._arrived, []
        for record in arrived:
            self.take(record)

    async def _answer(self, prompt: Record[AgentPrompt]) -> None:
        """One episode, from its beginning or from where it was cut off."""
        assert self._claim is not None
        shop, run = self._shop, run_id(prompt.id)
        recorder = Recorder(run, shop.journal, AgentsCodec(shop.name), claim=self._claim, cause=prompt)
        unfinished, self._unfinished = self._unfinished, []
        for record in unfinished:
            recorder.observe(record)
        self._recorder = recorder
        begun = any(isinstance(record.entry, CrystalCalled) and record.entry.run == run for record in unfinished)
        cast = await self._recast(prompt, begun)
        episode = Episode(
            recall(shop.cantrip.crystal, cast),
            cast,
            self._context,
            tool_timeout_s=shop.tool_timeout_s,
            open_stream=self._streams(prompt),
        )
        root = Call(run, "", "", episode.action(prompt.entry.text))
        try:
            await Run(root, episode.registry, recorder, shop.clock).execute()
        except NonDeterminismError as drift:
            # The job has failed, its ledger is safe, and the conversation goes on: this is the boundary for that.
            _log.error("the episode of prompt %s in session %r failed: %s", prompt.id, self.name, drift)
            text = "I could not go on with this: my program has changed since I began. Please ask again."
            await recorder.write_outcome(root, [ending(text, "failed")])
        finally:
            self._recorder = None

    async def _recast(self, prompt: Record[AgentPrompt], begun: bool) -> EntityCast:
        """The call that this episode works under: the one it began under, else the configured one, recorded once."""
        configured = cast_entry(self._shop.cantrip, entity_id(self._shop.name, self.name))
        if self._cast is None or (not begun and self._cast != configured):
            assert self._claim is not None
            id = derive_id(run_id(prompt.id), "cast", fingerprint(msgspec.to_builtins(configured)))
            await self._shop.journal.append(configured, session=self.name, id=id, cause=prompt, expect=self._claim)
            self._cast = configured
        return self._cast

    def _streams(self, prompt: Record[AgentPrompt]) -> Callable[[str], Stream] | None:
        chunks = self._shop.chunks
        return None if chunks is None else lambda id: chunks.open(prompt, id)
