"""A router's place in a target journal: exactly once after any crash, of any length, with no server memory.

The cursor is a message on a literal subject of the target. A router takes it over by a claim on that subject; from
then on everything that an older router still has in flight is refused. What was routed between the last saved cursor
and the claim is found by reading the target, since every routed record carries its source position.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

import msgspec

from journals._envelope import Envelope
from journals._errors import ClaimLost, FenceRefused, Unacknowledged
from journals._faults import ARMED, fault_point
from journals._log import Fence, Log, Message
from journals._names import to_token
from journals._record import Draft, Lane

SOURCE = "Coven-Source"


class CursorState(msgspec.Struct, frozen=True):
    """What a message on the cursor's subject holds.

    All of the source up to `position` has arrived. `since` is where in the target the next owner must begin to look
    for what came after: this message itself (0), or on a claim the last true cursor.
    """

    owner: str
    incarnation: str
    position: int
    since: int = 0


class Routed(NamedTuple):
    """One effect of one source record, packed and ready to be written."""

    message: Message
    kind: str
    source_position: int


class RouteCursor:
    """One router's claimed place in one target journal.

    `position` is the source position up to which everything has arrived here; valid after `take`.
    """

    def __init__(self, log: Log, envelope: Envelope, name: str, owner: str, clock: Callable[[], float]) -> None:
        self._log, self._envelope, self._clock = log, envelope, clock
        self.name, self.owner = name, owner
        self.subject = f"cursor.{to_token(name, 'route')}"
        self.position = 0
        self._incarnation = ""
        self._fence = 0
        self._saved = 0

    def __repr__(self) -> str:
        return f"<RouteCursor {self.name} -> {self._log.name} position={self.position} owner={self.owner}>"

    def lag(self, position: int) -> int:
        """How far the saved cursor lies behind a source position, in source positions."""
        return position - self._saved

    async def take(self, incarnation: str, start: int = 0) -> int:
        """Take the cursor over for a source of this incarnation; gives the source position to go on behind.

        `start` is where a cursor begins that was never written. Raises what the log raises.
        """
        if ARMED:
            fault_point(self._log.name, "cursor", "take", "before")
        while True:
            try:
                position = await self._take(incarnation, start)
                break
            except (FenceRefused, Unacknowledged):
                continue
        if ARMED:
            fault_point(self._log.name, "cursor", "take", "after")
        return position

    async def _take(self, incarnation: str, start: int) -> int:
        state, claimed = await self._claim(start)
        position = state.position if state.incarnation == incarnation else start
        async for group in self._log.read(None, state.since, claimed):
            for stored in group:
                source = stored.headers.get(SOURCE)
                if source is not None:
                    name, source_incarnation, number = source.rsplit(":", 2)
                    if name == self.name and source_incarnation == incarnation:
                        position = max(position, int(number))
        self._incarnation, self._fence, self.position = incarnation, claimed, position
        await self.save(position)
        return position

    def pack(self, draft: Draft, source_position: int) -> Routed:
        """Make an effect of a stored record ready. Raises `InvalidEntry` and `InvalidName` if it cannot be stored."""
        source = {SOURCE: f"{self.name}:{self._incarnation}:{source_position}"}
        message = self._envelope.pack(draft, Lane.IN, self._clock(), source, checked=True)
        return Routed(message, draft.entry.kind(), source_position)

    async def append(self, routed: Routed) -> int:
        """Write the only effect that a source record has here; gives its position.

        Raises `ClaimLost` when another router has taken over; after `Unacknowledged` and `FenceRefused`, `take` again.
        """
        if ARMED:
            fault_point(self._log.name, "route", routed.kind, "before")
        message = routed.message
        if self._envelope.is_large(message):
            message = await self._envelope.outsource(message)
        position = await self._fenced(self._log.append(message, Fence(self.subject, self._fence)))
        self.position = routed.source_position
        if ARMED:
            fault_point(self._log.name, "route", routed.kind, "after")
        return position

    async def append_all(self, effects: Sequence[Routed], upto: int) -> None:
        """Write many effects and the cursor behind them, all or none. Raises what `append` raises."""
        if ARMED:
            fault_point(self._log.name, "route_all", "before")
        envelope = self._envelope
        messages = [
            await envelope.outsource(routed.message) if envelope.is_large(routed.message) else routed.message
            for routed in effects
        ]
        messages.append(self._state_message(upto))
        self._fence = await self._fenced(self._log.append_all(messages, Fence(self.subject, self._fence)))
        self.position = self._saved = upto
        if ARMED:
            fault_point(self._log.name, "route_all", "after")

    async def save(self, position: int) -> None:
        """Write the cursor. Raises what `append` raises."""
        message = self._state_message(position)
        self._fence = await self._fenced(self._log.append(message, Fence(self.subject, self._fence)))
        self.position = self._saved = position

    async def _claim(self, start: int) -> tuple[CursorState, int]:
        """The state that was found, with `since` filled in, and the position of our claim on it."""
        while True:
            last = await self._log.last(self.subject)
            if last is None:
                found, fence = CursorState("", "", start), 0
            else:
                found, fence = msgspec.json.decode(last.body, type=CursorState), last.position
            state = CursorState(self.owner, found.incarnation, found.position, found.since or fence)
            try:
                claimed = await self._log.append(self._message(state), Fence(self.subject, fence))
            except (FenceRefused, Unacknowledged):
                continue
            return state, claimed

    async def _fenced(self, writing: Coroutine[Any, Any, int]) -> int:
        try:
            return await writing
        except FenceRefused:
            last = await self._log.last(self.subject)
            if last is not None and (newer := msgspec.json.decode(last.body, type=CursorState)).owner != self.owner:
                raise ClaimLost(
                    self._log.name, f"the cursor of {self.name!r} (now {newer.owner!r})", self.owner, last.position
                ) from None
            raise

    def _state_message(self, position: int) -> Message:
        return self._message(CursorState(self.owner, self._incarnation, position))

    def _message(self, state: CursorState) -> Message:
        return Message(self.subject, {}, msgspec.json.encode(state))
