"""A journal's log on a JetStream stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from itertools import islice

from journals._ids import random_id
from journals._jetstream._blobs import Blobs
from journals._jetstream._direct import by_position, last_by_subject, read_subject
from journals._jetstream._grouping import Fenced, GroupCommit
from journals._jetstream._publisher import FENCE, FENCE_SUBJECT, Publisher
from journals._jetstream._reading import read_all
from journals._jetstream._shared import SharedTail
from journals._jetstream._streams import Stream
from journals._log import Fence, Hears, Message, Stored

_BATCH_ID, _BATCH_SEQUENCE, _BATCH_COMMIT = "Nats-Batch-Id", "Nats-Batch-Sequence", "Nats-Batch-Commit"


class JetStreamLog:
    """One stream. See `Log` for what each method promises."""

    def __init__(self, name: str, stream: Stream, publisher: Publisher, tails: SharedTail, blobs: Blobs) -> None:
        self.name = name
        self.incarnation = "".join(character for character in stream.created if character.isalnum())
        self._stream, self._prefix = stream, stream.prefix
        self._publisher, self._tails, self._blobs = publisher, tails, blobs
        self._group = GroupCommit(self._append, self._append_together)

    def __repr__(self) -> str:
        return f"<JetStreamLog {self._stream.name} at {self._stream.connection.url}>"

    def append(self, message: Message, fence: Fence | None = None) -> Awaitable[int]:
        """See `Log.append`. What many sessions write at the same time may go out as one batch."""
        if fence is not None and fence.subject == message.subject:
            return self._group.append(message, fence)
        return self._append(message, fence)

    async def append_all(self, messages: Sequence[Message], fence: Fence | None = None) -> int:
        """See `Log.append_all`. An atomic batch; at most 1,000 messages."""
        return await self._append_together([(messages[0], fence), *((message, None) for message in messages[1:])])

    def _append(self, message: Message, fence: Fence | None) -> Awaitable[int]:
        headers = {**message.headers, **self._fencing(message, fence)}
        tell = partial(self._tails.wrote, (message,)) if self._tails.listened_to else None
        return self._publisher.publish(self._prefix + message.subject, headers, message.body, tell)

    async def _append_together(self, messages: Sequence[Fenced]) -> int:
        """One atomic batch in which each message has its own fence; gives the position of the last one."""
        if len(messages) == 1:
            return await self._append(*messages[0])
        prefix, batch = self._prefix, random_id()[:10]

        def frames() -> Iterator[tuple[str, dict[str, str], bytes]]:
            for number, (message, fence) in enumerate(messages, 1):
                headers = {_BATCH_ID: batch, _BATCH_SEQUENCE: str(number), **message.headers}
                if fence is not None:
                    headers |= self._fencing(message, fence)
                yield prefix + message.subject, headers, message.body

        each = frames()
        self._publisher.send_all(islice(each, len(messages) - 1))
        subject, headers, body = next(each)
        tell = partial(self._tails.wrote, [message for message, _ in messages]) if self._tails.listened_to else None
        return await self._publisher.publish(subject, {**headers, _BATCH_COMMIT: "1"}, body, tell)

    def _fencing(self, message: Message, fence: Fence | None) -> dict[str, str]:
        if fence is None:
            return {}
        if fence.subject == message.subject:
            return {FENCE: str(fence.position)}
        return {FENCE: str(fence.position), FENCE_SUBJECT: self._prefix + fence.subject}

    async def send(self, message: Message) -> None:
        """See `Log.send`."""
        self._publisher.send_all([(self._prefix + message.subject, message.headers, message.body)])

    async def get(self, position: int) -> Stored | None:
        """See `Log.get`."""
        return await by_position(self._stream, position)

    async def last(self, subject: str) -> Stored | None:
        """See `Log.last`."""
        return await last_by_subject(self._stream, subject)

    async def end(self) -> int:
        """See `Log.end`."""
        return (await self._stream.state())["last_seq"]

    async def verify(self) -> None:
        """See `Log.verify`."""
        await self._stream.state()

    async def read(self, subject: str | None, after: int, before: int | None) -> AsyncGenerator[Sequence[Stored]]:
        """See `Log.read`."""
        if subject is not None:
            groups = read_subject(self._stream, subject, after, before)
        else:
            end = await self.end()
            upto = end if before is None else min(end, before - 1)
            groups = read_all(self._stream, after, upto)
        async for group in groups:
            yield group

    async def tail(self, after: int, hears: Hears) -> AsyncGenerator[Sequence[Stored]]:
        """See `Log.tail`."""
        async with aclosing(self._tails.tail(after, hears)) as groups:
            async for group in groups:
                yield group

    async def put_blob(self, digest: str, body: bytes) -> None:
        """See `Log.put_blob`."""
        await self._blobs.put(digest, body)

    async def get_blob(self, digest: str) -> bytes | None:
        """See `Log.get_blob`."""
        return await self._blobs.get(digest)
