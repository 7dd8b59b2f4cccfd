"""The Agents service: finds the entity of each conversation, lets it act, and brings home what its gates answer."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from contextlib import aclosing

from branches.agents.cantrip import Cantrip
from branches.agents.chunks import ChunkWriter
from branches.agents.entity import SessionUnreadable
from branches.agents.entries import AgentCancel, AgentPrompt, AgentToolFault, AgentToolResult, ApprovalGiven
from branches.agents.internal import AgentsSettled
from branches.agents.medium import Medium, no_medium
from branches.agents.session import Session
from branches.agents.unanswered import SETTLED_SESSION, is_asking, open_prompts
from branches.agents.workshop import Workshop
from branches.claims import Claims
from branches.service import first_error
from branches.settled import SETTLED_EVERY, Settled
from journals import ClaimLost, Entry, Journal, Record
from policies import Clock, SystemClock

_log = logging.getLogger("coven.agents")
_ARRIVING = tuple(kind.kind() for kind in (AgentPrompt, AgentCancel, ApprovalGiven, AgentToolResult, AgentToolFault))
_IDLE_SESSIONS = 500
_LOADING_AT_ONCE = 50


def _every(session: str) -> bool:
    return True


class AgentsService:
    """One agents instance over its journal.

    Conversations do not wait for each other; within one, prompts are answered in order. The loop that reads the
    journal's tail never waits for an entity, so an entity never blocks the path that its own result comes home by.
    After a restart every prompt without a response is gone on with, exactly where it stopped.

    `serves` tells by name which sessions are this service's, where others serve the rest of the same journal; a
    session that cannot be gone on with is left alone, unless it is one of few that somebody waits for (`all_matter`);
    `tool_timeout_s` are the seconds after which a gate call without an answer becomes a fault; `medium` gives the
    sandboxes of a medium by its name.
    """

    def __init__(
        self,
        name: str,
        journal: Journal,
        cantrip: Cantrip,
        *,
        owner: str,
        tool_timeout_s: float = 60.0,
        clock: Clock | None = None,
        chunk_journal: Journal | None = None,
        medium: Callable[[str], Medium] = no_medium,
        serves: Callable[[str], bool] = _every,
        all_matter: bool = False,
        idle_sessions: int = _IDLE_SESSIONS,
        settled_every: int = SETTLED_EVERY,
    ) -> None:
        self._name, self._journal = name, journal
        self._chunks = None if chunk_journal is None else ChunkWriter(chunk_journal)
        self._claims = Claims(journal, owner)
        self._settled = Settled(journal, self._claims, AgentsSettled, SETTLED_SESSION, every=settled_every)
        self._shop = Workshop(
            name=name,
            journal=journal,
            claims=self._claims,
            settled=self._settled,
            cantrip=cantrip,
            clock=SystemClock() if clock is None else clock,
            tool_timeout_s=tool_timeout_s,
            chunks=self._chunks,
            medium=medium,
            bound={},
        )
        self._serves, self._all_matter = serves, all_matter
        self._idle_sessions = idle_sessions
        self._working: dict[str, Session] = {}
        self._idle: OrderedDict[str, Session] = OrderedDict()
        self._lost: set[str] = set()
        self._loading = asyncio.Semaphore(_LOADING_AT_ONCE)

    def __repr__(self) -> str:
        return f"<AgentsService {self._name}: {len(self._working)} sessions at work, {len(self._idle)} idle>"

    def bind(self, session: str, cantrip: Cantrip) -> None:
        """Let this session's entity work under a cantrip of its own, from its next episode on."""
        self._shop.bound[session] = cantrip

    @property
    def name(self) -> str:
        """The name of the agents instance."""
        return self._name

    async def run(self, ready: Callable[[], None]) -> None:
        """Serve until cancelled. Raises what the journal raises, and whatever breaks an invariant of ours.

        Where all sessions matter, it raises `SessionUnreadable` too.
        """
        for state in (self._working, self._idle, self._lost):
            state.clear()
        await self._claims.begin(SETTLED_SESSION)
        try:
            async with asyncio.TaskGroup() as tasks:
                if self._chunks is not None:
                    tasks.create_task(self._chunks.run())
                waiting = await open_prompts(self._settled)
                for session in dict.fromkeys(prompt.session for prompt in waiting):
                    if self._serves(session):
                        self._start(Session(session, self._shop), tasks)
                ready()
                async with aclosing(self._journal.tail_groups(self._settled.seen, kinds=_ARRIVING)) as groups:
                    async for group in groups:
                        for record in group:
                            self._dispatch(record, tasks)
        except BaseExceptionGroup as group:
            raise first_error(group) from None
        finally:
            for session in (*self._working.values(), *self._idle.values()):
                await session.close()

    def _dispatch(self, record: Record[Entry], tasks: asyncio.TaskGroup) -> None:
        """Hand a record to its session. An answer that no session waits for stays recorded, and that is all."""
        asks = is_asking(record)
        self._settled.see(record.position, asks=asks)
        session = self._working.get(record.session)
        if session is not None:
            session.take(record)
        elif asks and record.session not in self._lost and self._serves(record.session):
            session = self._idle.pop(record.session, None) or Session(record.session, self._shop)
            session.take(record)
            if session.has_work:
                self._start(session, tasks)
            else:
                self._rest(session)

    def _start(self, session: Session, tasks: asyncio.TaskGroup) -> None:
        self._working[session.name] = session
        tasks.create_task(self._work(session))

    async def _work(self, session: Session) -> None:
        try:
            session = await self._answer(session)
        except (ClaimLost, SessionUnreadable) as reason:
            session = self._working[session.name]
            if self._all_matter and isinstance(reason, SessionUnreadable):
                raise
            _log.warning("%s leaves session %r alone until its restart: %s", self._name, session.name, reason)
            self._lost.add(session.name)
            del self._working[session.name]
            await session.close()
        else:
            del self._working[session.name]
            for evicted in self._rest(session):
                await evicted.close()

    async def _answer(self, session: Session) -> Session:
        """Let a session work until nothing waits; gives it, or another one of its name if it was lost meanwhile.

        Raises `ClaimLost` when somebody took it over who began after us, and what `Session.work` raises.
        """
        while session.has_work:
            try:
                await session.work(self._loading)
                await session.rest()
            except ClaimLost as lost:
                if not await self._claims.lost_to_older(lost):
                    raise
                _log.warning("%s takes session %r back: %s", self._name, session.name, lost)
                await session.close()
                self._claims.forget(session.name)
                session = self._working[session.name] = Session(session.name, self._shop)
        return session

    def _rest(self, session: Session) -> list[Session]:
        """Keep an idle session's context at hand; those that were used last. Gives those that are no longer kept."""
        self._idle[session.name] = session
        over = len(self._idle) - self._idle_sessions
        return [self._idle.popitem(last=False)[1] for _ in range(over)]
