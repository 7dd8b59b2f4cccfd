"""Reading a session: its records become its entity, and what is still to be done in it."""

from __future__ import annotations

from typing import TypeGuard, cast

from branches.agents.entity import Entity, SessionUnreadable
from branches.agents.entries import AgentCancel, AgentFork, AgentPrompt, AgentResponse
from branches.agents.internal import EntityCast, EntityForked
from branches.agents.naming import run_id
from branches.agents.unanswered import is_asking
from journals import Entry, Journal, Lane, Record, Unreadable


class Reading:
    """A session on its way out of the journal.

    Finished episodes go into the `entity`. `prompts` are those without a response, by id, `since` is what was recorded
    behind the last response, `cancelled` are prompts to which nobody wants an answer any more, and `position` is that
    of the last record. `asked` is a fork that was asked for, of which it is not recorded where it goes on from.
    """

    def __init__(self, session: str, entity: Entity) -> None:
        self._session, self.entity = session, entity
        self.prompts: dict[str, Record[Entry]] = {}
        self.since: list[Record[Entry]] = []
        self.cancelled: set[str] = set()
        self.position = 0
        self.asked: Record[AgentFork] | None = None
        self._inherits = False

    def __repr__(self) -> str:
        return f"<Reading of {self._session} to {self.position}: {len(self.prompts)} prompts, {self.entity!r}>"

    async def read(self, journal: Journal, *, lane: Lane | None = None, fork: EntityForked | None = None) -> None:
        """Read all of it, or up to the turn of a fork. Raises `SessionUnreadable` and what the journal raises."""
        before = None if fork is None else fork.position + 1
        async for record in journal.read(session=self._session, lane=lane, before=before):
            if isinstance(record.entry, EntityForked):
                await self.inherit(journal, record.entry)
            elif not isinstance(record.entry, AgentFork):
                self._take(record, fork)
            elif self.position == 0 and not self._inherits:  # later it would be too late
                self.asked = self.asked or cast("Record[AgentFork]", record)

    async def inherit(self, journal: Journal, fork: EntityForked) -> None:
        """Take in the path to the turn that this session was forked from (LOOM-4)."""
        self.asked, self._inherits = None, True
        if self.entity.crystal is None:
            self.entity.crystal = fork.crystal
        origin = Reading(fork.session, self.entity)
        await origin.read(journal, fork=fork)
        for prompt in origin.prompts.values():
            if _is_read(prompt) and run_id(prompt.id) == fork.run:
                self.entity.fold(prompt, origin.since, through=fork.turn)

    def _take(self, record: Record[Entry], fork: EntityForked | None) -> None:
        entry, self.position = record.entry, record.position
        match entry:
            case Unreadable() if record.lane is Lane.OUT:
                raise SessionUnreadable(self.entity.session, f"its {entry.of_kind} cannot be read: {entry.reason}")
            case AgentPrompt():
                self.prompts[record.id] = record
            case Unreadable() if is_asking(record):
                self.prompts[record.id] = record
            case AgentCancel():
                asked = self.prompts.keys()
                self.cancelled |= asked & {entry.prompt} if entry.prompt else asked
            case EntityCast():
                self.entity.cast = entry
            case AgentResponse():
                prompt = self.prompts.pop(record.causation_id or "", None)
                if prompt is not None and _is_read(prompt):
                    through = fork.turn if fork is not None and run_id(prompt.id) == fork.run else None
                    self.entity.fold(prompt, [*self.since, record], through=through)
                self.since = []
            case _:
                self.since.append(record)


def _is_read(prompt: Record[Entry]) -> TypeGuard[Record[AgentPrompt]]:
    return isinstance(prompt.entry, AgentPrompt)
