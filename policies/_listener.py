"""What the journal brings while a run waits for something from outside."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from journals import Entry, Journal, Record
from policies._recorder import Recorder


class Listener:
    """Feeds a recorder: with what was recorded when it is made, and with what comes later once it listens."""

    def __init__(self, journal: Journal, recorder: Recorder, records: list[Record[Entry]]) -> None:
        self._journal, self._recorder = journal, recorder
        self._seen = records[-1].position
        self._tailing: asyncio.Task[None] | None = None
        for record in records:
            recorder.observe(record)

    def __repr__(self) -> str:
        return f"<Listener {'listening' if self._tailing else 'idle'} behind {self._seen}>"

    def listen(self) -> None:
        """Begin to take in what comes; again and again does nothing."""
        if self._tailing is None:
            self._tailing = asyncio.create_task(self._tail())
            self._tailing.add_done_callback(self._ended)

    async def catch_up(self) -> None:
        """Take in what stands in the journal by now."""
        async for record in self._journal.read(after=self._seen, session=self._recorder.cause.session):
            self._take(record)

    async def close(self) -> None:
        """Take in nothing more."""
        if self._tailing is not None:
            self._tailing.cancel()
            await asyncio.gather(self._tailing, return_exceptions=True)  # its failure was told to the recorder

    async def _tail(self) -> None:
        session = self._recorder.cause.session
        async with aclosing(self._journal.tail(self._seen, session=session)) as records:
            async for record in records:
                self._take(record)

    def _take(self, record: Record[Entry]) -> None:
        if record.position > self._seen:
            self._seen = record.position
            self._recorder.observe(record)

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._recorder.fail(error)
