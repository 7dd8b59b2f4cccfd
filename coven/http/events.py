"""What happens in a session, as server-sent events that a reader can take up again where it was cut off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing
from typing import Final, NamedTuple

import msgspec

from branches.agents.entries import AgentResponse
from branches.agents.events import (
    AnyEvent,
    Events,
    FinalResponseEvent,
    PieceEvent,
    StepStartEvent,
    TextEvent,
    ThinkingEvent,
    pieces,
)
from branches.agents.internal import CrystalCalled, EntityCast
from coven.http.troubles import Refused
from journals import Entry, Journal, Record

KEEP_ALIVE_S: Final = 15.0
_AHEAD: Final = 100
_ALL: Final = 1 << 30


class Mark(NamedTuple):
    """How far a reader has come: a position of the Agents journal, and which event of its record, from 0."""

    position: int
    nth: int = _ALL

    def __str__(self) -> str:
        return f"{self.position}.{self.nth}"


class Told(NamedTuple):
    """An event with the mark behind which a reader goes on; a piece has none, and comes again with `restart`."""

    mark: Mark | None
    event: AnyEvent


class _Stopping(Exception):
    """The server is told to stop."""


def parse_mark(text: str) -> Mark:
    """The mark that `Last-Event-ID` holds. Raises `Refused`."""
    position, _, index = text.partition(".")
    if not position.isdecimal() or not (index or "0").isdecimal() or len(text) > 30:
        raise Refused(400, "bad_event_id", "a Last-Event-ID is one that came with an event, e.g. 12.0")
    return Mark(int(position), int(index) if index else _ALL)


async def session_events(
    journal: Journal, session: str, chunks: Journal | None, after: Mark | None, *, stopping: asyncio.Event
) -> AsyncGenerator[Told | None]:
    """The events of a session behind a mark; without one, those of the episode at work and what comes.

    It ends when the server is `stopping`, and no earlier.

    Each reader reads the journal by itself, at its own pace, so a slow one holds up nobody. None says that nothing
    happened for a while. Raises what the journal raises.
    """
    start = Mark(await journal.end()) if after is None else after
    events, begun = Events(), set[tuple[type[PieceEvent], str]]()
    inner = start.position if start.nth != _ALL else start.position + 1
    for record in await _at_work(journal, session, before=inner):
        for told in _tell(events, record):
            if after is None:
                yield told
            else:
                _begin(told.event, begun)
    async with aclosing(_records(journal, chunks, session, inner - 1, stopping)) as records:
        async for record in records:
            if record is None:
                yield None
                continue
            for told in _tell(events, record):
                if told.mark is None or told.mark > start:
                    yield Told(told.mark, _whole(told.event, begun))
                else:
                    _begin(told.event, begun)


def _tell(events: Events, record: Record[Entry]) -> Iterable[Told]:
    """The events of a record. A piece has no mark: how much it holds depends on the pieces before it."""
    index = 0
    for event in events.feed(record):
        if isinstance(event, PieceEvent):
            yield Told(None, event)
        else:
            yield Told(Mark(record.position, index), event)
            index += 1


def _begin(event: AnyEvent, begun: set[tuple[type[PieceEvent], str]]) -> None:
    if isinstance(event, StepStartEvent):
        begun |= {(ThinkingEvent, event.turn_id), (TextEvent, event.turn_id)}


def _whole(event: AnyEvent, begun: set[tuple[type[PieceEvent], str]]) -> AnyEvent:
    """The first thought and text of a turn that began before the mark come whole, in the place of pieces before it."""
    if isinstance(event, PieceEvent) and (type(event), event.turn_id) in begun:
        begun.remove((type(event), event.turn_id))
        return msgspec.structs.replace(event, restart=True)
    return event


async def _at_work(journal: Journal, session: str, *, before: int) -> list[Record[Entry]]:
    """The call in force before a position, and what is recorded of the episode that is at work there."""
    since: list[Record[Entry]] = []
    recast = False
    async with aclosing(journal.read(session=session, before=before, reverse=True)) as records:
        async for record in records:
            if isinstance(record.entry, AgentResponse):
                break
            since.append(record)
            recast = recast or isinstance(record.entry, EntityCast)
    if not recast:
        casts = journal.read(session=session, before=before, kinds=[EntityCast.kind()], reverse=True)
        async with aclosing(casts) as records:
            async for record in records:
                since.append(record)
                break
    return since[::-1]


async def _records(
    journal: Journal, chunks: Journal | None, session: str, after: int, stopping: asyncio.Event
) -> AsyncGenerator[Record[Entry] | None]:
    """Both journals' records of a session as they come, and None when none came for a while."""
    arrived: asyncio.Queue[Record[Entry] | BaseException] = asyncio.Queue(_AHEAD)

    async def stop() -> None:
        await stopping.wait()
        await arrived.put(_Stopping())

    tails = [journal.tail(after, session=session)]
    if chunks is not None:
        newest = await journal.last(session=session, kinds=[CrystalCalled.kind(), AgentResponse.kind()])
        asked = newest if newest is not None and newest.kind == CrystalCalled.kind() else None
        tails.append(pieces(chunks, session, None if asked is None else asked.causation_id))
    reading = [asyncio.create_task(work) for work in (*(_gather(tail, arrived) for tail in tails), stop())]
    try:
        while True:
            try:
                async with asyncio.timeout(KEEP_ALIVE_S):
                    record = await arrived.get()
            except TimeoutError:
                yield None
                continue
            if isinstance(record, _Stopping):
                return
            if isinstance(record, BaseException):
                raise record
            yield record
    finally:
        for task in reading:
            task.cancel()
        await asyncio.wait(reading)


async def _gather(tail: AsyncGenerator[Record[Entry]], arrived: asyncio.Queue[Record[Entry] | BaseException]) -> None:
    try:
        async with aclosing(tail) as records:
            async for record in records:
                await arrived.put(record)
    except Exception as error:  # noqa: BLE001 - raised again by whoever waits for the next record
        await arrived.put(error)


async def as_lines(told: AsyncGenerator[Told | None], *, once: bool) -> AsyncIterator[bytes]:
    """The events as the lines of an event stream; with `once`, to the end of the next episode."""
    async with aclosing(told) as events:
        async for each in events:
            if each is None:
                yield b": nothing yet\n\n"
                continue
            mark, event = each
            id = b"" if mark is None else f"id: {mark}\n".encode()
            yield id + b"event: %s\ndata: %s\n\n" % (type(event).__name__.encode(), msgspec.json.encode(event))
            if once and isinstance(event, FinalResponseEvent) and event.depth == 0:
                return
