"""The questions that are open, and what counts as an answer to one of them."""

from __future__ import annotations

from typing import NamedTuple

from branches.chat import ChatEfferent
from branches.chat.sessions import conversation_of
from journals import Record

NOT_YOURS = "You are not one of those who may answer this."


class Answered(NamedTuple):
    """An answer to an open question, in the question's own words where it has choices."""

    session: str
    question: str
    answer: str
    approvers: tuple[str, ...] = ()

    def may_come_from(self, person: str) -> bool:
        """Whether this person may give it. Who has asked looks at that too."""
        return not self.approvers or person in self.approvers


class OpenQuestions:
    """Questions in the order in which they were asked."""

    def __init__(self) -> None:
        self._asked: dict[str, Record[ChatEfferent]] = {}

    def __repr__(self) -> str:
        return f"<OpenQuestions {', '.join(self._asked)}>"

    def add(self, message: Record[ChatEfferent]) -> None:
        """A message that asks is in its channel."""
        if message.entry.question is not None:
            self._asked.setdefault(message.entry.question, message)

    def close(self, question: str) -> None:
        """It is answered."""
        self._asked.pop(question, None)

    def chosen(self, question: str, number: int) -> Answered | None:
        """The choice of this number was made; None if the question is not open."""
        asked = self._asked.get(question)
        if asked is None or number >= len(asked.entry.choices):
            return None
        return Answered(asked.session, question, asked.entry.choices[number], asked.entry.approvers)

    def answered_by(self, conversation: str, text: str) -> Answered | None:
        """What a text says to the oldest open question of a conversation: a choice, or any text if it has none."""
        for question, asked in self._asked.items():
            if conversation_of(asked.session) != conversation:
                continue
            choices = asked.entry.choices or ((text.strip(),) if text.strip() else ())
            chosen = next((choice for choice in choices if choice.lower() == text.strip().lower()), None)
            return None if chosen is None else Answered(asked.session, question, chosen, asked.entry.approvers)
        return None
