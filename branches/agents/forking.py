"""Forking: a new session that goes on from a turn of another one, which stays as it is (LOOM-4)."""

from __future__ import annotations

from branches.agents.entries import AgentPrompt
from branches.agents.internal import CrystalCalled, EntityForked, EntityReturned, GateReturned
from branches.agents.naming import continued_id, run_id, turn_id
from branches.agents.utterances import utterance_in
from journals import Entry, Journal, Record


class NoSuchTurn(LookupError):
    """A turn that cannot be forked from."""

    def __init__(self, session: str, turn: str | int, reason: str) -> None:
        super().__init__(f"session {session!r} cannot be forked from turn {turn!r}: {reason}")
        self.session, self.turn = session, turn


async def fork(
    journal: Journal, session: str, turn: str | int, new_session: str, *, crystal: str | None = None
) -> Record[Entry]:
    """Begin `new_session` behind a turn of `session`: one of its entity's own, by id, or by number from 0.

    A negative number counts from the end. A turn that children interrupted ends with what came of its utterance, so
    the ids of all its parts are one place to fork from. `crystal` names another one for the new session's entity.
    Raises `NoSuchTurn`, also for a turn that has not ended yet.
    """
    turns = await _turns(journal, session)
    chosen = _chosen(session, turn, turns)
    entry = EntityForked(session=session, run=chosen.run, turn=chosen.turn, position=chosen.end, crystal=crystal)
    appended = await journal.append(entry, session=new_session)
    return appended.record


class _Turn:
    def __init__(self, run: str, turn: int) -> None:
        self.run, self.turn, self.end = run, turn, 0
        self.returns = 0
        self.open = True

    def has(self, id: str) -> bool:
        """Whether the loom knows it, or one of its parts, by this id."""
        base = turn_id(self.run, self.turn)
        return any(continued_id(base, part) == id for part in range(self.returns + 1))


async def _turns(journal: Journal, session: str) -> list[_Turn]:
    """The turns of a session's own entity, children's left out, each with the position where it ended."""
    turns: list[_Turn] = []
    roots: set[str] = set()
    async for record in journal.read(session=session):
        entry = record.entry
        if isinstance(entry, AgentPrompt):
            roots.add(run_id(record.id))
        if isinstance(entry, CrystalCalled) and entry.run in roots and turns:
            turns[-1].open = False
        said = utterance_in(record)
        if said is not None and said.run in roots:
            turns.append(_Turn(said.run, said.turn))
        if turns and turns[-1].open:
            turns[-1].end = record.position
            turns[-1].returns += isinstance(entry, EntityReturned | GateReturned)
            turns[-1].open = record.kind != "AgentResponse"
    return turns


def _chosen(session: str, turn: str | int, turns: list[_Turn]) -> _Turn:
    if isinstance(turn, int):
        if not -len(turns) <= turn < len(turns):
            raise NoSuchTurn(session, turn, f"it has {len(turns)} turns, counted from 0")
        chosen = turns[turn]
    else:
        found = next((each for each in turns if each.has(turn)), None)
        if found is None:
            raise NoSuchTurn(session, turn, "no turn of its entity has this id")
        chosen = found
    if chosen.open:
        raise NoSuchTurn(session, turn, "it has not ended yet")
    return chosen
