"""The events of one episode, from the journals as they grow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any

from branches.agents.entries import AgentChunk, AgentPrompt, AgentToolFault, AgentToolResult
from branches.agents.events._events import AnyEvent, FinalResponseEvent
from branches.agents.events._projector import Events
from branches.agents.internal import EntityCast
from journals import Entry, Journal, Record

_ANYBODYS = (EntityCast.kind(), AgentToolResult.kind(), AgentToolFault.kind())
"""What counts, whichever record caused it."""
_AHEAD = 100


class Casts:
    """The newest `EntityCast` of a session, for whoever asks again and again: nothing is read twice."""

    def __init__(self, journal: Journal, session: str) -> None:
        self._journal, self._session = journal, session
        self._seen = 0
        self._newest: Record[Entry] | None = None

    def __repr__(self) -> str:
        return f"<Casts of session {self._session} up to {self._seen}>"

    async def before(self, position: int) -> Record[Entry] | None:
        """The newest one before a position. Raises what the journal raises."""
        if position <= self._seen:
            return await Casts(self._journal, self._session).before(position)
        kinds = [EntityCast.kind()]
        async for record in self._journal.read(session=self._session, kinds=kinds, after=self._seen, before=position):
            self._newest = record
        self._seen = position - 1
        return self._newest


async def follow(
    journal: Journal,
    prompt: Record[AgentPrompt],
    chunks: Journal | None = None,
    *,
    casts: Casts | None = None,
) -> AsyncGenerator[AnyEvent]:
    """What happens in the episode of a prompt and those of its children, to its final response.

    It may be over, at work, or not begun: what is recorded comes at once, the rest when it happens. With the Agents
    instance's short-lived journal, thoughts and text come in pieces. `casts` spare a lasting conversation from being
    read from its beginning for each prompt. Raises what the journals raise.
    """
    events, arrived = Events(), asyncio.Queue[Record[Entry] | BaseException](_AHEAD)
    cast = await (casts or Casts(journal, prompt.session)).before(prompt.position)
    if cast is not None:
        events.feed(cast)
    tails = [journal.tail(prompt.position, session=prompt.session)]
    if chunks is not None:
        tails.append(pieces(chunks, prompt.session, prompt.id))
    reading = [asyncio.create_task(_gather(tail, prompt, arrived)) for tail in tails]
    try:
        while True:
            record = await arrived.get()
            if isinstance(record, BaseException):
                raise record
            for event in events.feed(record):
                yield event
                if isinstance(event, FinalResponseEvent) and event.depth == 0:
                    return
    finally:
        for task in reading:
            task.cancel()
        for task in reading:
            with suppress(asyncio.CancelledError):
                await task


async def pieces(chunks: Journal, session: str, prompt: str | None) -> AsyncGenerator[Record[Entry]]:
    """The chunks of a session that are to come, behind those that the episode of a prompt has left until now.

    So whoever comes late is told of a thought and of a text from its beginning. Raises what the journal raises.
    """
    kinds, end = [AgentChunk.kind()], await chunks.end()
    left: list[Record[Entry]] = []
    if prompt is not None:
        async with aclosing(chunks.read(session=session, before=end + 1, reverse=True)) as records:
            async for record in records:
                if record.causation_id != prompt:
                    break
                left.append(record)
    for record in reversed(left):
        if record.kind in kinds:
            yield record
    async with aclosing(chunks.tail(end, kinds=kinds, session=session)) as records:
        async for record in records:
            yield record


async def _gather(
    tail: AsyncGenerator[Record[Entry]], prompt: Record[Any], arrived: asyncio.Queue[Record[Entry] | BaseException]
) -> None:
    """Hand on the records of the prompt's episode, and what makes the reading fail."""
    try:
        async with aclosing(tail) as records:
            async for record in records:
                if record.causation_id == prompt.id or record.kind in _ANYBODYS:
                    await arrived.put(record)
    except Exception as error:  # noqa: BLE001 - raised again by whoever waits for the next record
        await arrived.put(error)
