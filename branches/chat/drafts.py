"""What is left to send: the drafts that have no outcome yet, found by folding the journal."""

from __future__ import annotations

from typing import NamedTuple

from branches.chat.entries import ChatAnswer, ChatDelivered, ChatEfferentDraft, ChatQuestion, ChatUndelivered
from branches.settled import Settled
from journals import Entry, Lane, Record, derive_id

SETTLED_SESSION = "chat.settled"
ASKED_TO_SEND = (ChatEfferentDraft.kind(), ChatQuestion.kind())
_KINDS = (*ASKED_TO_SEND, ChatAnswer.kind(), ChatDelivered.kind(), ChatUndelivered.kind())


def is_draft(record: Record[Entry]) -> bool:
    """Whether the record asks us to send something; one that was imported from elsewhere does not."""
    return record.kind in ASKED_TO_SEND and record.lane is Lane.IN and not record.imported


def efferent_id(draft: str) -> str:
    """The id of the `ChatEfferent` that the draft of this id becomes."""
    return derive_id("efferent", draft)


class Open(NamedTuple):
    """What a start finds: drafts to deliver, and questions that were asked and have no answer yet, both in order."""

    drafts: list[Record[Entry]]
    questions: list[Record[Entry]]


async def open_drafts(settled: Settled) -> Open:
    """The drafts that were neither delivered nor given up, and the questions without an answer; opens them.

    An outcome names its `ChatEfferent` in the envelope (`causation_id`), so that it counts even if this program
    cannot decode it. Memory grows with what is open.
    """
    drafts: dict[tuple[str, str], Record[Entry]] = {}
    questions: dict[str, Record[Entry]] = {}
    async for record in settled.restart(_KINDS):
        if is_draft(record):
            drafts[record.session, efferent_id(record.id)] = record
            if isinstance(record.entry, ChatQuestion):
                questions.setdefault(record.entry.correlation_id, record)
        elif isinstance(record.entry, ChatAnswer):
            questions.pop(record.entry.correlation_id, None)
        elif record.lane is Lane.OUT and record.causation_id is not None:
            drafts.pop((record.session, record.causation_id), None)
            # A draft that nobody could read was given up without a `ChatEfferent`: its outcome names the draft.
            drafts.pop((record.session, efferent_id(record.causation_id)), None)
    undelivered = {draft.position: draft for draft in drafts.values()}
    asked = {question.position: question for question in questions.values() if question.position not in undelivered}
    settled.open(sorted(undelivered | asked))
    return Open(list(undelivered.values()), list(asked.values()))
