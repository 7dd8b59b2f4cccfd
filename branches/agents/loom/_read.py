"""Reading the loom out of the Agents journal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from contextlib import aclosing

from branches.agents.internal import CrystalFailed, EntityForked
from branches.agents.loom._loom import Loom, UnknownTurn
from branches.agents.loom._turn import Turn
from branches.agents.loom._weaver import KINDS, Weaver
from branches.agents.naming import turn_id
from branches.agents.utterances import SPEAKING, utterance_in
from journals import Entry, Journal, Lane, Record

_SAYING = (*SPEAKING, CrystalFailed.kind())


def weave(records: Iterable[Record[Entry]]) -> Loom:
    """The loom of these records. A session that was forked stands behind the one that it was forked from."""
    weaver = Weaver()
    for record in records:
        weaver.feed(record)
    return weaver.loom()


async def read_loom(journal: Journal, session: str | None = None, *, forks: bool = False) -> Loom:
    """The loom of a session with those that it was forked from; without a session, that of the whole journal.

    With `forks`, also what was forked from any of them: the whole journal is searched for that. It takes time and
    memory with the number of turns; nothing is kept. Raises what the journal raises.
    """
    weaver = Weaver()
    if session is None:
        async for record in journal.read(kinds=KINDS):
            weaver.feed(record)
        return weaver.loom()
    for each in await (_family(journal, session) if forks else _ancestors(journal, session)):
        async for record in journal.read(session=each, kinds=KINDS):
            weaver.feed(record)
    return weaver.loom()


async def find_turn(journal: Journal, id: str) -> Turn:
    """The turn of this id, or the only one whose id begins so, wherever it is: that of a child or a fork too.

    It decodes what the crystal said and weaves one session, so it takes a fraction of the time of the whole loom; only
    an id that no utterance has, such as that of a turn after a delegation, is looked for in all of it. Turns after
    delegations in other sessions, whose ids may begin so too, are not looked at where an utterance is found. Raises
    `UnknownTurn`, and what the journal raises.
    """
    found: dict[str, str] = {}
    async for record in journal.read(kinds=_SAYING):
        said = record.entry if isinstance(record.entry, CrystalFailed) else utterance_in(record)
        if said is not None and (turn := turn_id(said.run, said.turn)).startswith(id):
            found.setdefault(turn, record.session)
    if not id or (len(found) > 1 and id not in found):
        raise UnknownTurn(id, len(found))
    if not found:
        return (await read_loom(journal)).turn(id)
    session = found[id] if id in found else next(iter(found.values()))
    return (await read_loom(journal, session)).turn(id)


async def _ancestors(journal: Journal, session: str) -> list[str]:
    """The session, behind all that it comes from."""
    sessions = [session]
    while (parent := await _forked_from(journal, sessions[0])) is not None and parent not in sessions:
        sessions.insert(0, parent)
    return sessions


async def _forked_from(journal: Journal, session: str) -> str | None:
    """What a session was forked from, which it says before anything happens in it."""
    async with aclosing(journal.read(session=session)) as records:
        async for record in records:
            if isinstance(record.entry, EntityForked):
                return record.entry.session
            if record.lane is Lane.OUT:
                return None
    return None


async def _family(journal: Journal, session: str) -> list[str]:
    """The first of the session's ancestors, and all that came from it, each behind the one that it comes from."""
    forks: defaultdict[str, list[str]] = defaultdict(list)
    async for record in journal.read(kinds=[EntityForked.kind()]):
        if isinstance(record.entry, EntityForked):
            forks[record.entry.session].append(record.session)
    (first, *_), family = await _ancestors(journal, session), dict[str, None]()
    waiting = [first]
    while waiting:
        each = waiting.pop(0)
        if each not in family:
            family[each] = None
            waiting += forks[each]
    return list(family)
