"""A session: one conversation's entity in this process, and the prompts that wait for it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TypeGuard

import msgspec

from branches.agents.cantrip import Cantrip, cast_entry, recall
from branches.agents.chunks import ChunkWriter, Stream
from branches.agents.code import CodeRun
from branches.agents.codec import AgentsCodec
from branches.agents.context import EntityContext
from branches.agents.entries import AgentCancel, AgentPrompt, AgentResponse
from branches.agents.family import Family
from branches.agents.files import GivenFiles, images_of
from branches.agents.internal import ContextFolded, CrystalCalled, EntityCast, EntityForked, SandboxKept
from branches.agents.medium import CodeEnding, Medium
from branches.agents.naming import entity_id, run_id
from branches.agents.past import fold_episode
from branches.agents.steps import ending
from branches.agents.unanswered import is_asking, is_prompt
from branches.agents.workspace import Workspace
from branches.claims import Claims
from branches.settled import Settled
from journals import Claim, Entry, InvalidEntry, Journal, Lane, Record, Unreadable, derive_id
from policies import Call, Clock, NonDeterminismError, Outcome, Recorder, Run, fingerprint

_log = logging.getLogger("coven.agents")
_KEPT_EVERY = 32


class SessionUnreadable(Exception):
    """A session holds what this program cannot read or go on with, so that nobody knows what has happened in it."""

    def __init__(self, session: str, reason: str) -> None:
        super().__init__(f"session {session!r} is left alone: {reason}")
        self.session, self.reason = session, reason


class Reading:
    """A session on its way out of the journal: prompts without response, and what was recorded since the last one."""

    def __init__(self) -> None:
        self.prompts: dict[str, Record[Entry]] = {}
        self.since: list[Record[Entry]] = []
        self.position = 0


class EpisodeCancelled(Exception):
    """The asker no longer wants an answer."""


class Workshop(msgspec.Struct, frozen=True, kw_only=True):
    """What all sessions of one agents instance share. `bound` are cantrips of sessions that have their own."""

    name: str
    journal: Journal
    claims: Claims
    settled: Settled
    cantrip: Cantrip
    clock: Clock
    tool_timeout_s: float
    chunks: ChunkWriter | None
    medium: Callable[[str], Medium]
    bound: dict[str, Cantrip]


class Session:
    """One entity and its queue of prompts. It answers them one after the other, each in an episode of its own."""

    def __init__(self, name: str, shop: Workshop) -> None:
        self.name, self._shop = name, shop
        self._crystal: str | None = None
        self._claim: Claim | None = None
        self._loaded_to: int | None = None
        self._arrived: list[Record[Entry]] = []
        self._prompts: deque[Record[Entry]] = deque()
        self._unfinished: list[Record[Entry]] = []
        self._context = EntityContext()
        self._cast: EntityCast | None = None
        self._recorder: Recorder | None = None
        self._given = GivenFiles()
        self._workspace: Workspace | None = None
        self._outcomes: dict[str, Outcome] = {}
        self._unkept = 0
        self._cancelled: set[str] = set()
        self._running: tuple[str, asyncio.Task[Outcome]] | None = None

    def __repr__(self) -> str:
        state = "idle" if self._recorder is None else "at work"
        return f"<Session {self.name} {state}, {len(self._prompts)} prompts waiting, {self._context!r}>"

    @property
    def _cantrip(self) -> Cantrip:
        """What it works under from its next episode on: with the crystal that it was forked for last, if it was."""
        cantrip = self._shop.bound.get(self.name, self._shop.cantrip)
        if self._crystal is None:
            return cantrip
        if self._crystal not in cantrip.crystals:
            raise SessionUnreadable(self.name, f"it was forked for the crystal {self._crystal!r}, which is missing")
        return msgspec.structs.replace(cantrip, crystal=cantrip.crystals[self._crystal])

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
            if is_prompt(prompt):
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
        if self._workspace is not None:
            await self._workspace.rest()

    async def close(self) -> None:
        """Let go of its sandbox for good; it is made again from the journal when it is needed."""
        if self._workspace is not None:
            await self._workspace.close()

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
        """Fold what the journal has of this session: finished episodes into the context, the rest to go on with."""
        assert self._claim is not None
        reading = Reading()
        lane = Lane.IN if self._claim.is_first else None
        async for record in self._shop.journal.read(session=self.name, lane=lane):
            if isinstance(record.entry, EntityForked):
                await self._inherit(record.entry)
            else:
                self._read(reading, record)
        self._prompts.extend(prompt for prompt in reading.prompts.values() if is_asking(prompt))
        self._unfinished = reading.since
        self._loaded_to = reading.position
        arrived, self._arrived = self._arrived, []
        for record in arrived:
            self.take(record)

    async def _inherit(self, fork: EntityForked) -> None:
        """Take in the path to the turn that this session was forked from (LOOM-4)."""
        if self._crystal is None:
            self._crystal = fork.crystal
        reading = Reading()
        async for record in self._shop.journal.read(session=fork.session, before=fork.position + 1):
            if isinstance(record.entry, EntityForked):
                await self._inherit(record.entry)
            else:
                self._read(reading, record, until=fork)
        for prompt in reading.prompts.values():
            if _is_read(prompt) and run_id(prompt.id) == fork.run and self._cast is not None:
                self._fold(self._cast, prompt, reading.since, through=fork.turn)

    def _read(self, reading: Reading, record: Record[Entry], until: EntityForked | None = None) -> None:
        entry, reading.position = record.entry, record.position
        match entry:
            case Unreadable() if record.lane is Lane.OUT:
                reason = f"its {entry.of_kind} cannot be read: {entry.reason}"
                raise SessionUnreadable(self.name, reason)
            case AgentPrompt():
                reading.prompts[record.id] = record
            case Unreadable() if is_asking(record):
                reading.prompts[record.id] = record
            case AgentCancel():
                asked = reading.prompts.keys()
                self._cancelled |= asked & {entry.prompt} if entry.prompt else asked
            case EntityCast():
                self._cast = entry
            case AgentResponse():
                prompt = reading.prompts.pop(record.causation_id or "", None)
                if prompt is not None and _is_read(prompt) and self._cast is not None:
                    through = until.turn if until is not None and run_id(prompt.id) == until.run else None
                    self._fold(self._cast, prompt, [*reading.since, record], through=through)
                reading.since = []
            case _:
                reading.since.append(record)

    def _fold(
        self,
        cast: EntityCast,
        prompt: Record[AgentPrompt],
        records: list[Record[Entry]],
        *,
        through: int | None = None,
    ) -> None:
        """Take in a finished episode, or its turns up to `through`."""
        workspace, intent = self._workspace_of(cast), prompt.entry.text
        images = images_of(prompt.entry)
        past = fold_episode(self._context, cast, run_id(prompt.id), intent, records, workspace, through, images)
        if workspace is not None:
            self._outcomes |= past.outcomes

    def _workspace_of(self, cast: EntityCast) -> Workspace | None:
        """The entity's sandbox where its medium runs code: one for all its episodes, as long as its circle is one."""
        if cast.medium == "tools":
            return None
        circle = recall(self._cantrip, cast).circle
        if self._workspace is None or self._workspace.medium != cast.medium:
            self._workspace = Workspace(self._medium_of(cast), circle)
        self._workspace.circle = circle
        return self._workspace

    def _medium_of(self, cast: EntityCast) -> Medium:
        try:
            return self._shop.medium(cast.medium)
        except LookupError as missing:
            raise SessionUnreadable(self.name, str(missing)) from missing

    def _cancel(self, entry: AgentCancel) -> None:
        """End the episodes of this prompt, or of all that wait now."""
        waiting = [prompt.id for prompt in self._prompts]
        if self._running is not None:
            waiting.append(self._running[0])
        self._cancelled |= {entry.prompt} & set(waiting) if entry.prompt else set(waiting)
        if self._running is not None and self._running[0] in self._cancelled:
            self._running[1].cancel()

    async def _answer(self, prompt: Record[AgentPrompt]) -> None:
        """One episode, from its beginning or from where it was cut off."""
        assert self._claim is not None
        shop, run = self._shop, run_id(prompt.id)
        self._given = given = GivenFiles()
        codec = AgentsCodec(shop.name, run, self._cantrip.circle.served, attached=lambda: given.of(recorder.outcome))
        recorder = Recorder(run, shop.journal, codec, claim=self._claim, cause=prompt)
        unfinished, self._unfinished = self._unfinished, []
        for record in unfinished:
            given.see(record)
            recorder.observe(record)
        self._recorder = recorder
        begun = any(isinstance(e := r.entry, CrystalCalled | ContextFolded) and e.run == run for r in unfinished)
        cast = await self._recast(prompt, begun)
        if self._workspace is not None and cast.medium not in ("tools", self._workspace.medium):
            await self._workspace.close()  # another one takes its place
        family = Family(
            recall(self._cantrip, cast),
            cast,
            self._context,
            run=run,
            session=self.name,
            clock=shop.clock,
            tool_timeout_s=shop.tool_timeout_s,
            recorded=lambda call: recorder.outcome(call) or self._outcomes.get(call),
            known=recorder.is_recorded,
            abandon=recorder.abandon,
            workspace=self._workspace_of(cast),
            medium=None if cast.medium == "tools" else self._medium_of(cast),
            open_stream=self._streams(prompt),
            images=images_of(prompt.entry),
            keep=lambda call, code: self._keep(prompt, call, code),
            kept={e.after: e.variables for record in unfinished if isinstance(e := record.entry, SandboxKept)},
        )
        family.budget.restore(unfinished)
        root = Call(run, "", "", family.action(prompt.entry.text))
        try:
            await self._perform(prompt, Run(root, family.registry, recorder, shop.clock))
        except EpisodeCancelled:
            await recorder.write_outcome(root, [ending("I was asked to stop.", "cancelled")])
        except NonDeterminismError as drift:
            # The job has failed, its ledger is safe, and the conversation goes on: this is the boundary for that.
            _log.error("the episode of prompt %s in session %r failed: %s", prompt.id, self.name, drift)
            text = "I could not go on with this: my program has changed since I began. Please ask again."
            await recorder.write_outcome(root, [ending(text, "failed")])
        finally:
            self._recorder = None
            if self._workspace is None or not self._workspace.has_past:
                self._outcomes = {}
            self._cancelled.discard(prompt.id)

    async def _perform(self, prompt: Record[AgentPrompt], run: Run) -> None:
        """Perform the run. Raises `EpisodeCancelled` when the asker no longer wants it."""
        if prompt.id in self._cancelled:
            raise EpisodeCancelled
        task = asyncio.ensure_future(run.execute())
        self._running = prompt.id, task
        try:
            await task
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
            current = asyncio.current_task()
            if prompt.id in self._cancelled and (current is None or not current.cancelling()):
                raise EpisodeCancelled from None
            raise
        finally:
            self._running = None

    async def _keep(self, prompt: Record[AgentPrompt], call: str, code: CodeRun) -> None:
        """Keep the variables now and then; and always after code that was stopped, which no run would repeat."""
        self._unkept += 1
        if self._unkept < _KEPT_EVERY and code.ending != CodeEnding.TIMED_OUT:
            return
        assert self._workspace is not None
        assert self._claim is not None
        variables = await self._workspace.snapshot()
        self._unkept = 0
        if variables is not None:
            medium = self._workspace.medium
            kept = SandboxKept(run=run_id(prompt.id), after=call, medium=medium, variables=variables)
            id = derive_id(call, "kept")
            await self._shop.journal.append(kept, session=self.name, id=id, cause=prompt, expect=self._claim)

    async def _recast(self, prompt: Record[AgentPrompt], begun: bool) -> EntityCast:
        """The call that this episode works under: the one it began under, else the configured one, recorded once."""
        configured = cast_entry(self._cantrip, entity_id(self._shop.name, self.name))
        if self._cast is None or (not begun and self._cast != configured):
            assert self._claim is not None
            id = derive_id(run_id(prompt.id), "cast", fingerprint(msgspec.to_builtins(configured)))
            await self._shop.journal.append(configured, session=self.name, id=id, cause=prompt, expect=self._claim)
            self._cast = configured
        return self._cast

    def _streams(self, prompt: Record[AgentPrompt]) -> Callable[[str], Stream] | None:
        chunks = self._shop.chunks
        return None if chunks is None else lambda id: chunks.open(prompt, id)


def _is_read(prompt: Record[Entry]) -> TypeGuard[Record[AgentPrompt]]:
    return isinstance(prompt.entry, AgentPrompt)
