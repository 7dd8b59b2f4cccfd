"""A session: one conversation's entity in this process, and the prompts that wait for it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress

import msgspec

from branches.agents.chunks import Stream
from branches.agents.code import CodeRun
from branches.agents.codec import AgentsCodec
from branches.agents.entity import Entity
from branches.agents.entries import AgentCancel, AgentFork, AgentPrompt, AgentResponse
from branches.agents.family import Family
from branches.agents.files import GivenFiles, images_of
from branches.agents.forking import forked
from branches.agents.internal import ContextFolded, CrystalCalled, EntityCast, SandboxKept
from branches.agents.medium import CodeEnding
from branches.agents.naming import run_id
from branches.agents.reading import Reading
from branches.agents.steps import ending
from branches.agents.unanswered import is_asking, is_prompt
from branches.agents.workshop import Workshop
from branches.agents.workspace import Workspace
from branches.service import is_being_cancelled
from journals import Claim, Entry, InvalidEntry, Lane, Record, Unreadable, derive_id
from policies import Call, NonDeterminismError, Outcome, Recorder, Run, Step, fingerprint

_log = logging.getLogger("coven.agents")
_KEPT_EVERY = 32


class EpisodeCancelled(Exception):
    """The asker no longer wants an answer."""


class Session:
    """One entity and its queue of prompts. It answers them one after the other, each in an episode of its own."""

    def __init__(self, name: str, shop: Workshop) -> None:
        self.name, self._shop = name, shop
        self._claim: Claim | None = None
        self._loaded_to: int | None = None
        self._arrived: list[Record[Entry]] = []
        self._prompts: deque[Record[Entry]] = deque()
        self._unfinished: list[Record[Entry]] = []
        self._entity = Entity(name, shop)
        self._cut = False
        """Whether the entity saw what its journal does not tell; then it is read again before it goes on."""
        self._recorder: Recorder | None = None
        self._given = GivenFiles()
        self._unkept = 0
        self._cancelled: set[str] = set()
        self._answering: str | None = None
        self._running: asyncio.Task[Outcome] | None = None

    def __repr__(self) -> str:
        state = "idle" if self._recorder is None else "at work"
        return f"<Session {self.name} {state}, {len(self._prompts)} prompts waiting, {self._entity!r}>"

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
            self._answering = prompt.id
            if is_prompt(prompt):
                if self._cut and prompt.id not in self._cancelled:
                    async with loading:
                        await self._read()
                await self._answer(prompt)
            else:
                await self._refuse(prompt)
            await self._shop.settled.close(prompt.position)

    @property
    def has_work(self) -> bool:
        """Whether prompts wait, or may wait in what was not read yet."""
        return bool(self._prompts) or self._loaded_to is None

    async def rest(self) -> None:
        """Let go of its sandbox until there is work again; its variables are kept here."""
        await self._entity.rest()

    async def close(self) -> None:
        """Let go of its sandbox for good; it is made again from the journal when it is needed."""
        await self._entity.close()

    async def _refuse(self, prompt: Record[Entry]) -> None:
        """A prompt that cannot be read gets a response that says so, in its turn."""
        reason = prompt.entry.reason if isinstance(prompt.entry, Unreadable) else f"it is a {prompt.kind}"
        name, position = self._shop.name, prompt.position
        _log.error("%s, session %r: the prompt at position %d cannot be read: %s", name, self.name, position, reason)
        response = AgentResponse(sender=name, text=f"The prompt cannot be read: {reason}", ending="failed")
        id = derive_id("refused", self.name, position)
        with suppress(InvalidEntry):  # what somebody else wrote around it cannot be written again: the log has said it
            await self._shop.journal.append(response, session=self.name, id=id, cause=prompt, expect=self._claim)

    def _sort(self, record: Record[Entry]) -> None:
        entry = record.entry
        if is_asking(record):
            self._prompts.append(record)
        elif isinstance(entry, AgentCancel):
            self._cancel(entry)
        elif isinstance(entry, AgentPrompt):
            return  # imported: nobody waits for its answer
        elif self._recorder is not None:
            self._given.see(record)
            self._recorder.observe(record)
        else:
            self._unfinished.append(record)

    async def _load(self) -> None:
        """Take in what the journal has of this session: finished episodes as its entity, the rest to go on with."""
        assert self._claim is not None
        reading = await self._read(Lane.IN if self._claim.is_first else None)
        if reading.asked is not None:
            await self._fork(reading, reading.asked)
        self._cancelled |= reading.cancelled
        self._prompts.extend(prompt for prompt in reading.prompts.values() if is_asking(prompt))
        self._unfinished = reading.since
        self._loaded_to = reading.position
        arrived, self._arrived = self._arrived, []
        for record in arrived:
            self.take(record)

    async def _fork(self, reading: Reading, asked: Record[AgentFork]) -> None:
        """Go on from where a fork was asked for, which is recorded once."""
        place = await forked(self._shop.journal, asked)
        if place is not None:
            id = derive_id(asked.id, "forked")
            await self._shop.journal.append(place, session=self.name, id=id, cause=asked, expect=self._claim)
            await reading.inherit(self._shop.journal, place)

    async def _read(self, lane: Lane | None = None) -> Reading:
        reading = Reading(self.name, Entity(self.name, self._shop))
        await reading.read(self._shop.journal, lane=lane)
        self._entity, self._cut = reading.entity, False
        return reading

    def _cancel(self, entry: AgentCancel) -> None:
        """End the episodes of this prompt, or of all that wait now."""
        waiting = {prompt.id for prompt in self._prompts}
        if self._answering is not None:
            waiting.add(self._answering)
        self._cancelled |= {entry.prompt} & waiting if entry.prompt else waiting
        if self._running is not None and self._answering in self._cancelled:
            self._running.cancel()

    async def _answer(self, prompt: Record[AgentPrompt]) -> None:
        """One episode, from its beginning or from where it was cut off."""
        assert self._claim is not None
        shop, run, entity = self._shop, run_id(prompt.id), self._entity
        self._given = given = GivenFiles()
        served = entity.cantrip.circle.served
        codec = AgentsCodec(shop.name, run, served, attached=lambda: given.of(recorder.outcome))
        recorder = Recorder(run, shop.journal, codec, claim=self._claim, cause=prompt)
        unfinished, self._unfinished = self._unfinished, []
        for record in unfinished:
            given.see(record)
            recorder.observe(record)
        self._recorder = recorder
        begun = any(isinstance(e := r.entry, CrystalCalled | ContextFolded) and e.run == run for r in unfinished)
        cast = await self._recast(prompt, begun)
        workspace = await entity.enter(cast)
        family = Family(
            entity.under(cast),
            cast,
            entity.context,
            recorder,
            clock=shop.clock,
            tool_timeout_s=shop.tool_timeout_s,
            past=entity.recorded,
            workspace=workspace,
            medium=entity.medium(cast),
            open_stream=self._streams(prompt),
            images=images_of(prompt.entry),
            keep=None if workspace is None else lambda call, code: self._keep(prompt, workspace, call, code),
            kept={e.after: e.variables for record in unfinished if isinstance(e := record.entry, SandboxKept)},
        )
        family.budget.restore(unfinished)
        root = Call(run, "", "", family.action(prompt.entry.text))
        self._cut = True
        try:
            await self._perform(prompt, Run(root, family.registry, recorder, shop.clock))
            self._cut = not family.root.is_whole
        except EpisodeCancelled:
            await self._end(root, recorder, ending("I was asked to stop.", "cancelled"))
        except NonDeterminismError as drift:
            # The job has failed, its ledger is safe, and the conversation goes on: this is the boundary for that.
            _log.error("the episode of prompt %s in session %r failed: %s", prompt.id, self.name, drift)
            text = "I could not go on with this: my program has changed since I began. Please ask again."
            await self._end(root, recorder, ending(text, "failed"))
        finally:
            self._recorder = self._answering = None
            entity.leave()
            self._cancelled.discard(prompt.id)
        if self._cut:
            await entity.close()

    @staticmethod
    async def _end(root: Call, recorder: Recorder, how: Step) -> None:
        """Record how an episode ended that could not say it itself; unless it has, in that very moment."""
        if recorder.root.outcome is None:
            await recorder.write_outcome(root, [how])

    async def _perform(self, prompt: Record[AgentPrompt], run: Run) -> None:
        """Perform the run. Raises `EpisodeCancelled` when the asker no longer wants it."""
        if prompt.id in self._cancelled:
            raise EpisodeCancelled
        task = asyncio.ensure_future(run.execute())
        self._running = task
        try:
            await task
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
            if prompt.id in self._cancelled and not is_being_cancelled():
                raise EpisodeCancelled from None
            if not is_being_cancelled():  # a task that ends so is missed by nobody, and its session would wait for ever
                raise RuntimeError(f"the episode of prompt {prompt.id} was cancelled by its own work") from None
            raise
        finally:
            self._running = None

    async def _keep(self, prompt: Record[AgentPrompt], workspace: Workspace, call: str, code: CodeRun) -> None:
        """Keep the variables now and then; and always after code that was stopped, which no run would repeat."""
        self._unkept += 1
        if self._unkept < _KEPT_EVERY and code.ending != CodeEnding.TIMED_OUT:
            return
        assert self._claim is not None
        variables = await workspace.snapshot()
        self._unkept = 0
        if variables is not None:
            kept = SandboxKept(run=run_id(prompt.id), after=call, medium=workspace.medium, variables=variables)
            id = derive_id(call, "kept")
            await self._shop.journal.append(kept, session=self.name, id=id, cause=prompt, expect=self._claim)

    async def _recast(self, prompt: Record[AgentPrompt], begun: bool) -> EntityCast:
        """The call that this episode works under: the one it began under, else the configured one, recorded once."""
        entity, configured = self._entity, self._entity.configured
        if entity.cast is None or (not begun and entity.cast != configured):
            assert self._claim is not None
            id = derive_id(run_id(prompt.id), "cast", fingerprint(msgspec.to_builtins(configured)))
            await self._shop.journal.append(configured, session=self.name, id=id, cause=prompt, expect=self._claim)
            entity.cast = configured
        return entity.cast

    def _streams(self, prompt: Record[AgentPrompt]) -> Callable[[str, bool], Stream] | None:
        chunks = self._shop.chunks
        return None if chunks is None else lambda id, thought: chunks.open(prompt, id, thought=thought)
