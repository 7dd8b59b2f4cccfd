"""What is left to do: the invocations that have no outcome yet, found by folding the journal."""

from __future__ import annotations

import msgspec

from branches.settled import Settled
from branches.spellcasting.entries import SpellFault, SpellInvocation, SpellResult, SpellStarted
from journals import Entry, Lane, Record

SETTLED_SESSION = "spellcasting.settled"
_KINDS = tuple(kind.kind() for kind in (SpellInvocation, SpellStarted, SpellResult, SpellFault))


class Call(msgspec.Struct, frozen=True):
    """One invocation without outcome.

    `waited` says that it is older than this start of the service, `started` that an earlier one had begun to cast it.
    """

    record: Record[Entry]
    waited: bool = False
    started: bool = False


def is_call(record: Record[Entry]) -> bool:
    """Whether the record asks us for something; one that was imported from elsewhere does not."""
    return record.kind == SpellInvocation.kind() and record.lane is Lane.IN and not record.imported


async def open_calls(settled: Settled) -> list[Call]:
    """The calls that have no outcome, in order; opens them in `settled`.

    Starts and outcomes name their invocation in the envelope (`causation_id`), so that an outcome counts even if
    this program cannot decode it. Memory grows with what is open.
    """
    calls: dict[tuple[str, str | None], Call] = {}
    async for record in settled.restart(_KINDS):
        if is_call(record):
            calls[record.session, record.id] = Call(record, waited=True)
            continue
        key = record.session, record.causation_id
        if record.lane is not Lane.OUT or key not in calls:
            continue
        if record.kind == SpellStarted.kind():
            calls[key] = Call(calls[key].record, waited=True, started=True)
        else:
            del calls[key]
    settled.open(call.record.position for call in calls.values())
    return list(calls.values())
