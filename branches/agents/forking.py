"""Forking: a new session that goes on from a turn of another one, which stays as it is (LOOM-4)."""

from __future__ import annotations

from typing import cast

from msgspec.structs import replace

from branches.agents.entries import AgentFork, AgentPrompt, AgentResponse
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
    chosen = _chosen(session, turn, (await _past(journal, session)).turns)
    entry = EntityForked(session=session, run=chosen.run, turn=chosen.turn, position=chosen.end, crystal=crystal)
    appended = await journal.append(entry, session=new_session)
    return appended.record


async def forked(journal: Journal, asked: Record[AgentFork]) -> EntityForked | None:
    """Where a fork that was asked for goes on from; None where nothing came before. It is the same at every time.

    Raises what the journal raises.
    """
    place, _ = await _path(journal, asked.entry.parent, asked.position, frozenset(asked.entry.without))
    return place


async def _path(
    journal: Journal, session: str, before: int, without: frozenset[str]
) -> tuple[EntityForked | None, bool]:
    """Where the path of a session ended before a position, and whether one of the prompts `without` cut it off.

    The end may lie in one of the sessions that it comes from.
    """
    past, place = await _past(journal, session, before), None
    if past.inherited is not None:
        place, crystal = past.inherited, past.inherited.crystal
        above, cut = await _path(journal, place.session, place.position + 1, without)
        if cut:
            return (replace(above, crystal=crystal) if above is not None and crystal else above), True
    elif past.asked is not None:
        more = without | frozenset(past.asked.entry.without)
        place, cut = await _path(journal, past.asked.entry.parent, past.asked.position, more)
        if cut:
            return place, True
    crystal = None if place is None else place.crystal
    last = {turn.run: turn for turn in past.turns if not turn.open}
    for prompt in past.prompts:
        if prompt.correlation_id in without:
            return place, True
        turn = last.get(run_id(prompt.id))
        if turn is not None and prompt.id in past.answered:
            place = EntityForked(session=session, run=turn.run, turn=turn.turn, position=turn.end, crystal=crystal)
    return place, False


class _Turn:
    def __init__(self, run: str, turn: int) -> None:
        self.run, self.turn, self.end = run, turn, 0
        self.returns = 0
        self.open = True

    def has(self, id: str) -> bool:
        """Whether the loom knows it, or one of its parts, by this id."""
        base = turn_id(self.run, self.turn)
        return any(continued_id(base, part) == id for part in range(self.returns + 1))


class _Past:
    """What a session's journal has of its own entity, children's turns left out."""

    def __init__(self) -> None:
        self.turns: list[_Turn] = []
        self.prompts: list[Record[Entry]] = []
        self.answered: set[str] = set()
        self.inherited: EntityForked | None = None
        self.asked: Record[AgentFork] | None = None


async def _past(journal: Journal, session: str, before: int | None = None) -> _Past:
    """A session up to a position: its turns, each with the position where it ended, and where it comes from."""
    past = _Past()
    turns, roots = past.turns, set[str]()
    async for record in journal.read(session=session, before=before):
        entry = record.entry
        match entry:
            case AgentPrompt():
                roots.add(run_id(record.id))
                past.prompts.append(record)
            case AgentResponse() if record.causation_id is not None:
                past.answered.add(record.causation_id)
            case EntityForked():
                past.inherited = entry
            case AgentFork() if past.asked is None and not past.prompts:
                past.asked = cast("Record[AgentFork]", record)
            case CrystalCalled() if entry.run in roots and turns:
                turns[-1].open = False
            case _:
                pass
        said = utterance_in(record)
        if said is not None and said.run in roots:
            turns.append(_Turn(said.run, said.turn))
        if turns and turns[-1].open:
            turns[-1].end = record.position
            turns[-1].returns += isinstance(entry, EntityReturned | GateReturned)
            turns[-1].open = record.kind != "AgentResponse"
    return past


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
