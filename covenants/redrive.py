"""Sending dead letters again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from covenants.approving import Asking, Releasing, halves
from covenants.dead_letters import DeadLetter, DeadLetterRedriven
from covenants.routing import RoutedBy, TransformFailed
from journals import Entry, IdConflict, InvalidEntry, InvalidName, Journal, Record, Unreadable, derive_id


class Redriven(msgspec.Struct, frozen=True):
    """What became of one dead letter: how many effects it had, or why it still cannot go."""

    id: str
    effects: int = 0
    problem: str | None = None


async def waiting_letters(dead_letters: Journal) -> list[Record[DeadLetter]]:
    """The dead letters that have not been sent again, oldest first."""
    letters: dict[str, Record[DeadLetter]] = {}
    async for record in dead_letters.read():
        if isinstance(record.entry, DeadLetter):
            letters[record.id] = record  # type: ignore[assignment]
        elif isinstance(record.entry, DeadLetterRedriven):
            letters.pop(record.entry.dead_letter, None)
    return list(letters.values())


async def redrive(
    letter: Record[DeadLetter], routes: Sequence[RoutedBy], journals: Mapping[str, Journal], dead_letters: Journal
) -> Redriven:
    """Send one dead letter again, through the routes as they are now. Doing it twice has the effects once.

    A route that needs an approval asks again, whatever was answered before.
    """
    source = journals.get(letter.entry.journal)
    record = None if source is None else await source.get(letter.entry.position)
    if source is None or record is None or letter.causation_id not in (record.id, ""):
        return Redriven(letter.id, problem=f"journal {letter.entry.journal!r} no longer has its source record")
    if isinstance(record.entry, Unreadable):
        return Redriven(letter.id, problem=f"still cannot be decoded: {record.entry.reason}")
    wanted = [
        route
        for route in halves(routes)
        if not isinstance(route, Releasing)
        and route.source_instance == letter.entry.journal
        and route.source_kind == record.kind
        and letter.entry.route in ("", route.name)
    ]
    if not wanted:
        return Redriven(letter.id, problem=f"no route takes {record.kind} as {letter.entry.route!r} any more")
    effects = 0
    for route in wanted:
        if route.target_instance is None:
            continue
        try:
            entries = route.ask_again(record, letter.id) if isinstance(route, Asking) else route.apply(record)
            for number, entry in enumerate(entries):
                await _append(journals[route.target_instance], entry, record, letter.id, route, number)
                effects += 1
        except (TransformFailed, InvalidEntry, InvalidName, IdConflict) as failure:
            return Redriven(letter.id, problem=f"fails again: {failure}")
    redriven = DeadLetterRedriven(dead_letter=letter.id, effects=effects)
    await dead_letters.append(redriven, session=letter.session, id=derive_id("redriven", letter.id), cause=letter)
    return Redriven(letter.id, effects)


async def _append(
    target: Journal, entry: Entry, record: Record[Entry], letter: str, route: RoutedBy, number: int
) -> None:
    id = derive_id("redrive", letter, route.name, number)
    conversation = None if route.approval is None else route.approval.conversation
    await target.append(entry, session=conversation or record.session, id=id, cause=record)
