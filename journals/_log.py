"""The one small interface between a journal and its storage. JetStream and the memory store implement it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Protocol

import msgspec


class Message(msgspec.Struct, frozen=True, gc=False):
    """What is stored: a subject below the journal's own (`in.<session>`), headers and a body."""

    subject: str
    headers: dict[str, str]
    body: bytes


class Stored(msgspec.Struct, frozen=True, gc=False):
    """A message as it stands in the log. `time` is the server's, in seconds since the epoch."""

    position: int
    subject: str
    headers: dict[str, str]
    body: bytes
    time: float


class Fence(msgspec.Struct, frozen=True, gc=False):
    """A condition on a write: the last message on this literal subject stands at this position (0: there is none)."""

    subject: str
    position: int


Hears = Callable[[Stored], bool]
"""Whether a tail wants this message. It may take notes; it must be quick and must not raise."""


class Log(Protocol):
    """An append-only log of messages with strictly increasing positions.

    Writes raise `FenceRefused` when their fence does not hold, `Unacknowledged` when nobody knows whether they are
    stored, `StoreFull` when a limit is reached.
    """

    @property
    def name(self) -> str:
        """The journal's name."""
        ...

    @property
    def incarnation(self) -> str:
        """An id drawn when the log was created; another one means that positions start anew."""
        ...

    def append(self, message: Message, fence: Fence | None = None) -> Awaitable[int]:
        """Store the message durably; what is awaited gives its position. It may be under way before it is awaited."""
        ...

    async def append_all(self, messages: Sequence[Message], fence: Fence | None = None) -> int:
        """Store all or none, in order, at consecutive positions; gives the position of the last one."""
        ...

    async def send(self, message: Message) -> None:
        """Store the message if that goes well; nobody waits for it."""
        ...

    async def get(self, position: int) -> Stored | None:
        """The message at a position, or None."""
        ...

    async def last(self, subject: str) -> Stored | None:
        """The newest message on a literal subject, or None."""
        ...

    async def end(self) -> int:
        """The position of the newest message; 0 when there is none."""
        ...

    async def verify(self) -> None:
        """Raise `StoreMismatch` when another log has taken the place of the one that was opened."""
        ...

    def read(self, subject: str | None, after: int, before: int | None) -> AsyncGenerator[Sequence[Stored]]:
        """What is stored now between two positions, both exclusive, in order, in groups."""
        ...

    def tail(self, after: int, hears: Hears) -> AsyncGenerator[Sequence[Stored]]:
        """Everything behind a position that `hears` accepts, for ever: never skips, never repeats, waits for a slow
        reader. `hears` is asked about every message once and in order, as soon as it is there.
        """
        ...

    async def put_blob(self, digest: str, body: bytes) -> None:
        """Store a large body under its digest; storing it again does nothing."""
        ...

    async def get_blob(self, digest: str) -> bytes | None:
        """The body of a digest; None when it is not in the store."""
        ...
