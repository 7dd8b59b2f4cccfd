"""Questions to the server: each ends with its answers, with the loss of the connection, or because it is not permitted.

The library's own requests wait out their time when the connection is lost, and lose cancellations before Python 3.12.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from journals._errors import StoreRefused
from journals._jetstream._client import Delivery, FastClient

IsLast = Callable[[Delivery], bool]


class _Question(NamedTuple):
    subject: str
    answers: list[Delivery]
    is_last: IsLast
    finished: asyncio.Future[None]


class Asker:
    """Asks through one inbox of its own."""

    def __init__(self, client: FastClient) -> None:
        self._client = client
        self._prefix = f"{client.new_inbox()}."
        self._questions: dict[str, _Question] = {}
        self._number = 0
        self._deaf = False

    def __repr__(self) -> str:
        return f"<Asker {len(self._questions)} questions>"

    async def open(self) -> None:
        """Begin to listen for answers."""
        await self._client.listen(f"{self._prefix}*", self._answered)

    async def ask(self, subject: str, body: bytes, is_last: IsLast = lambda _: True) -> list[Delivery]:
        """All answers up to the last one. Raises `ConnectionError` when the connection is lost meanwhile.

        Raises `StoreRefused` when the server does not permit the question, and `nats.errors.Error` when not connected.
        """
        if self._deaf:
            raise self._refused("listening on", f"{self._prefix}*")
        self._number += 1
        token = str(self._number)
        question = _Question(subject, [], is_last, asyncio.get_running_loop().create_future())
        self._questions[token] = question
        try:
            self._client.publish_checked([(subject, {}, body)], self._prefix + token)
            await question.finished
        finally:
            del self._questions[token]
        return question.answers

    def lost(self) -> None:
        """The connection is gone, and the answers with it."""
        for question in self._questions.values():
            _fail(question, ConnectionResetError("the connection was lost before the answer came"))

    def denied(self, subject: str) -> None:
        """The server does not permit this subject (given in lower case): no answer will come."""
        if subject == f"{self._prefix}*".lower():
            self._deaf = True
        for question in self._questions.values():
            if self._deaf:
                _fail(question, self._refused("listening on", f"{self._prefix}*"))
            elif question.subject.lower() == subject:
                _fail(question, self._refused("asking", question.subject))

    def _refused(self, what: str, subject: str) -> StoreRefused:
        return StoreRefused(f"the server does not permit {what} {subject!r}; docs/jetstream.md lists what Coven needs")

    def _answered(self, delivery: Delivery) -> None:
        question = self._questions.get(delivery.subject[len(self._prefix) :])
        if question is not None:
            question.answers.append(delivery)
            if question.is_last(delivery) and not question.finished.done():
                question.finished.set_result(None)


def _fail(question: _Question, error: Exception) -> None:
    if not question.finished.done():
        question.finished.set_exception(error)
