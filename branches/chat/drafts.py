"""What is left to send: the drafts that have no outcome yet, found by folding the journal."""

from __future__ import annotations

from branches.chat.entries import ChatDelivered, ChatEfferentDraft, ChatUndelivered
from branches.settled import Settled
from journals import Entry, Lane, Record, derive_id

SETTLED_SESSION = "chat.settled"
_KINDS = tuple(kind.kind() for kind in (ChatEfferentDraft, ChatDelivered, ChatUndelivered))


def is_draft(record: Record[Entry]) -> bool:
    """Whether the record asks us to send something; one that was imported from elsewhere does not."""
    return record.kind == ChatEfferentDraft.kind() and record.lane is Lane.IN and not record.imported


def efferent_id(draft: str) -> str:
    """The id of the `ChatEfferent` that the draft of this id becomes."""
    return derive_id("efferent", draft)


async def open_drafts(settled: Settled) -> list[Record[Entry]]:
    """The drafts that were neither delivered nor given up, in order; opens them in `settled`.

    An outcome names its `ChatEfferent` in the envelope (`causation_id`), so that it counts even if this program
    cannot decode it. Memory grows with what is open.
    """
    drafts: dict[tuple[str, str], Record[Entry]] = {}
    async for record in settled.restart(_KINDS):
        if is_draft(record):
            drafts[record.session, efferent_id(record.id)] = record
        elif record.lane is Lane.OUT and record.causation_id is not None:
            drafts.pop((record.session, record.causation_id), None)
            # A draft that nobody could read was given up without a `ChatEfferent`: its outcome names the draft.
            drafts.pop((record.session, efferent_id(record.causation_id)), None)
    settled.open(draft.position for draft in drafts.values())
    return list(drafts.values())
