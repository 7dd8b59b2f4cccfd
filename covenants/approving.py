"""Routes that need an approval: one half asks a person in a chat, the other writes what they have said yes to.

Nothing is kept in between. The question stands in the chat's journal and names the route, the source record and a
digest of the very entries that it shows; an answer is looked at when it comes, however long that takes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

from branches.agents.approval import NO, YES, Answer
from branches.chat.entries import ChatAnswer, ChatQuestion
from covenants.problems import shown
from covenants.questions import FIRST, again_by, asked_by, question_id, question_text, released_name
from covenants.routing import Approval, RoutedBy, TransformFailed
from journals import Entry, Record

MADE_AT_MOST = 900
"""How many entries a route may make of one record: what fits into one batch, with its cursor."""

DENIED = "denied"
_CHANGED, _UNASKED, _NOT_AN_APPROVER, _SOURCE_GONE = "changed", "unasked", "not_an_approver", "source_gone"


class Asking:
    """The half that asks: in place of what the route makes it writes a question that shows all of it."""

    def __init__(self, route: RoutedBy, approval: Approval) -> None:
        self._route, self.approval = route, approval
        self.name = route.name
        self.source_instance, self.source_kind = route.source_instance, route.source_kind
        self.target_instance: str | None = approval.chat
        self.fault_instance = route.fault_instance
        self.from_beginning, self.max_hops = route.from_beginning, route.max_hops
        self.short_lived = False

    def __repr__(self) -> str:
        return f"<Asking {self.name} in {self.approval.chat}>"

    def apply(self, record: Record[Any]) -> list[Entry]:
        """The question about what the route makes of this record; none where it makes nothing."""
        return self._ask(record, FIRST)

    def ask_again(self, record: Record[Any], letter: str) -> list[Entry]:
        """The same as another question, since the dead letter of this id is sent again. Raises `TransformFailed`."""
        return self._ask(record, again_by(letter))

    def _ask(self, record: Record[Any], again: str) -> list[Entry]:
        entries = self._route.apply(record)
        if not entries:
            return []
        if len(entries) > MADE_AT_MOST:
            raise too_many(len(entries))
        elsewhere = record.session if self.approval.conversation not in (None, record.session) else None
        assert self._route.target_instance is not None
        question = ChatQuestion(
            correlation_id=question_id(self._route, record.position, entries, again),
            question=question_text(self._route.target_instance, entries, elsewhere),
            choices=(YES, NO),
            approvers=self.approval.approvers,
        )
        return [question]

    def fault(self, record: Record[Any], failure: TransformFailed) -> Entry:
        """What goes home when there is nothing to ask about."""
        return self._route.fault(record, failure)


class Releasing:
    """The half that takes the answer: it makes the entries again and gives them only if they are those that were shown.

    Its faults are those of the route. It takes the first answer to a question, and no other.
    """

    def __init__(self, route: RoutedBy, approval: Approval) -> None:
        self.route, self._approvers = route, approval.approvers
        self.name = released_name(route.name)
        self.source_instance, self.source_kind = approval.chat, ChatAnswer.kind()
        self.target_instance, self.fault_instance = route.target_instance, route.fault_instance
        self.from_beginning = self.short_lived = False

    def __repr__(self) -> str:
        return f"<Releasing {self.name} from {self.source_instance}>"

    def release(self, heard: Heard, answer: Record[ChatAnswer]) -> list[Entry]:
        """What was approved. Raises `TransformFailed` where it was not, or where it would be something else now."""
        question, source, given = heard.question.entry, heard.source, answer.entry
        if source is None:
            raise TransformFailed(_SOURCE_GONE, "the record that was asked about is not there for this route any more")
        if not given.by:  # the chat itself says so: a person has a name
            raise TransformFailed(_UNASKED, shown(given.answer, 300))
        if any(allowed and given.by not in allowed for allowed in (question.approvers, self._approvers)):
            raise TransformFailed(_NOT_AN_APPROVER, f"{shown(given.by)} is not one of those who may approve it")
        if not Answer(given.answer, given.by).approves:
            raise TransformFailed(DENIED, f"{shown(given.by)} has not approved it")
        entries = self.route.apply(source)
        asked = asked_by(question.correlation_id)
        if asked is None or question_id(self.route, source.position, entries, asked.again) != question.correlation_id:
            raise TransformFailed(_CHANGED, "the route makes something else of it now than was approved")
        return entries


class Heard(NamedTuple):
    """An answer to a route's question that counts: who takes it, what was asked, and about which record."""

    by: Releasing
    question: Record[ChatQuestion]
    source: Record[Entry] | None


Carried: TypeAlias = RoutedBy | Releasing
"""A route as it is carried out: as a whole, or the one or the other half of it."""


def halves(routes: Iterable[RoutedBy]) -> list[Carried]:
    """The routes as they are carried out: those that need an approval as two halves, the others as they are."""
    found: list[Carried] = []
    for route in routes:
        if route.approval is None:
            found.append(route)
        else:
            found += Asking(route, route.approval), Releasing(route, route.approval)
    return found


def too_many(count: int) -> TransformFailed:
    """The failure of a record that becomes more than one batch."""
    return TransformFailed("too_many", f"it made {count} entries of one; a route makes up to {MADE_AT_MOST}")
