"""Answers to the questions of routes: which of them count, and for which record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import cast

from branches.chat.entries import ChatAnswer, ChatQuestion
from covenants.approving import Heard, Releasing
from covenants.questions import asked_by, route_key
from covenants.routing import RoutedBy
from journals import Entry, Journal, Record, Unreadable

_KINDS = (ChatAnswer.kind(), ChatQuestion.kind())


class Hearing:
    """Reads what routes want to know of the answers in one chat, before they are asked what becomes of them."""

    def __init__(self, chat: Journal, routes: Sequence[Releasing], journals: Mapping[str, Journal]) -> None:
        self._chat, self._journals = chat, journals
        self._routes = {route_key(releasing.route): releasing for releasing in routes}
        self._heard: dict[int, Heard] = {}

    def __repr__(self) -> str:
        return f"<Hearing {self._chat.name} for {len(self._routes)} routes>"

    async def listen(self, group: Sequence[Record[Entry]]) -> None:
        """Look up the answers among these records; `of` has them until the next group. Raises what journals raise."""
        self._heard.clear()
        for record in group:
            if isinstance(record.entry, ChatAnswer) and not record.imported:
                await self._look_up(cast("Record[ChatAnswer]", record))

    def of(self, record: Record[Entry]) -> Heard | None:
        """What was heard of this record, if it is an answer that counts."""
        return self._heard.get(record.position)

    async def _look_up(self, answer: Record[ChatAnswer]) -> None:
        asked = asked_by(answer.entry.correlation_id)
        route = None if asked is None else self._routes.get(asked.route)
        if asked is None or route is None:
            return
        question = await self._question(answer)
        if question is not None:
            source = await self._source(route.route, asked.position, question)
            self._heard[answer.position] = Heard(route, question, source)

    async def _source(self, route: RoutedBy, position: int, question: Record[ChatQuestion]) -> Record[Entry] | None:
        """The record that was asked about; None if this route cannot take it any more.

        Where a journal was deleted and made anew, another record stands there.
        """
        record = await self._journals[route.source_instance].get(position)
        if record is None or record.id != question.causation_id or record.imported:
            return None
        return None if record.kind != route.source_kind or isinstance(record.entry, Unreadable) else record

    async def _question(self, answer: Record[ChatAnswer]) -> Record[ChatQuestion] | None:
        """The question that this is the first answer to; None if it was answered before, or never asked."""
        id = answer.entry.correlation_id
        back = self._chat.read(before=answer.position, kinds=_KINDS, session=answer.session, reverse=True)
        async with aclosing(back) as records:
            async for record in records:
                entry = record.entry
                if isinstance(entry, ChatAnswer | ChatQuestion) and entry.correlation_id == id and not record.imported:
                    return cast("Record[ChatQuestion]", record) if isinstance(entry, ChatQuestion) else None
        return None
