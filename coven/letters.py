"""Finding a dead letter by the beginning of its id."""

from __future__ import annotations

from typing import cast

from covenants.dead_letters import DeadLetter
from journals import Journal, Record


class LetterNotFound(Exception):
    """No dead letter has such an id, or more than one has."""


async def find_letter(dead_letters: Journal, id: str) -> Record[DeadLetter]:
    """The dead letter whose id begins so, sent again or not. Raises `LetterNotFound`."""
    found = [
        cast("Record[DeadLetter]", record)
        async for record in dead_letters.read(kinds=[DeadLetter.kind()])
        if record.id.startswith(id) and isinstance(record.entry, DeadLetter)
    ]
    if len(found) == 1:
        return found[0]
    if not found:
        raise LetterNotFound(f"no dead letter has an id that begins with {id!r}; `coven dead-letters list` shows them")
    raise LetterNotFound(f"{len(found)} dead letters have ids that begin with {id!r}; give more of it")
