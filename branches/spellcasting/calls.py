"""What is left to do: the invocations that have no outcome yet, found by folding the journal."""

from __future__ import annotations

from typing import cast

import msgspec

from branches.spellcasting.entries import SpellFault, SpellInvocation, SpellResult, SpellsSettled, SpellStarted
from journals import Entry, Journal, Lane, Record

SETTLED_SESSION = "spellcasting.settled"
_KINDS = tuple(kind.kind() for kind in (SpellInvocation, SpellStarted, SpellResult, SpellFault))


class Call(msgspec.Struct, frozen=True):
    """One invocation without outcome. `started` says that an earlier service had begun to cast it."""

    record: Record[Entry]
    started: bool = False


class OpenCalls(msgspec.Struct, frozen=True):
    """The calls that are open, in order, after all up to position `upto`; `settled` is where the fold began."""

    calls: tuple[Call, ...]
    settled: int
    upto: int


def is_call(record: Record[Entry]) -> bool:
    """Whether the record asks us for something; one that was imported from elsewhere does not."""
    return record.kind == SpellInvocation.kind() and record.lane is Lane.IN and not record.imported


async def open_calls(journal: Journal) -> OpenCalls:
    """Fold the journal from the newest `SpellsSettled` on (from its beginning without one), keeping open calls only.

    Starts and outcomes name their invocation in the envelope (`causation_id`), so that an outcome counts even if
    this program cannot decode it. Time grows with what was recorded since the last `SpellsSettled`, memory with what
    is open.
    """
    newest = await journal.last(session=SETTLED_SESSION, kinds=[SpellsSettled.kind()])
    settled = upto = cast("SpellsSettled", newest.entry).position if newest is not None else 0
    calls: dict[tuple[str, str | None], Call] = {}
    async for record in journal.read(after=settled, kinds=_KINDS):
        upto = record.position
        if is_call(record):
            calls[record.session, record.id] = Call(record)
            continue
        key = record.session, record.causation_id
        if record.lane is not Lane.OUT or key not in calls:
            continue
        if record.kind == SpellStarted.kind():
            calls[key] = Call(calls[key].record, started=True)
        else:
            del calls[key]
    return OpenCalls(tuple(calls.values()), settled, upto)
