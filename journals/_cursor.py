"""A router's place in a target journal: exactly once after any crash, of any length, with no server memory.

The cursor is a message on a literal subject of the target. A router takes it over by a claim on that subject; from
then on everything that an older router still has in flight is refused. Routers know each other's terms: an older one
never takes back what a newer one has, and of two that start at once the later one gets everything. What was routed
between the last saved cursor and the claim is found by reading the target, since every routed record carries its
source position.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from journals._attempts import PATIENCE_S, Attempts
from journals._envelope import Envelope
from journals._errors import ClaimLost, FenceRefused, Unacknowledged
from journals._faults import ARMED, fault_point
from journals._log import Fence, Log, Message, Stored
from journals._names import to_token
from journals._record import Draft, Lane

SOURCE, WHOLE = "Coven-Source", "Coven-Whole"


class Term(NamedTuple):
    """When a router began: the position of its claim in the system journal of this incarnation."""

    incarnation: str
    position: int


class CursorState(msgspec.Struct, frozen=True):
    """What a message on the cursor's subject holds.

    All of the source up to `position` has arrived. `since` is where in the target the next owner must begin to look
    for what came after: this message itself (0), or on a claim the last true cursor. `term` says when the owner began.
    All of the source up to `floor` has arrived in every target of this pump, and not only in this one.
    """

    owner: str
    incarnation: str
    position: int
    since: int = 0
    term: Term = Term("", 0)
    floor: int = 0


class Routed(msgspec.Struct, frozen=True, gc=False):
    """One effect of one source record, packed and ready to be written."""

    message: Message
    kind: str
    source_position: int


class RouteCursor:
    """One router's claimed place in one target journal.

    `position` is the source position up to which everything has arrived here, and `floor` the one up to which
    everything has arrived wherever this pump writes, as far as is known here; both are valid after `take`.
    """

    def __init__(
        self,
        log: Log,
        envelope: Envelope,
        name: str,
        owner: str,
        term: Term,
        clock: Callable[[], float],
        patience: float = PATIENCE_S,
    ) -> None:
        self._log, self._envelope, self._clock, self._patience = log, envelope, clock, patience
        self.name, self.owner, self.term = name, owner, term
        self.subject = f"cursor.{to_token(name, 'route')}"
        self.position = self.floor = 0
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

        `start` is where a cursor begins that was never written. Raises `ClaimLost` when a router that began later
        has it, `StoreUnavailable` when the store answers and does not take it, and what the log raises.
        """
        if ARMED:
            fault_point(self._log.name, "cursor", "take", "before")
        attempts = Attempts(self._patience)
        while True:
            try:
                position = await self._take(incarnation, start, attempts)
                break
            except (FenceRefused, Unacknowledged) as error:
                await attempts.failed(error)
        if ARMED:
            fault_point(self._log.name, "cursor", "take", "after")
        return position

    async def _take(self, incarnation: str, start: int, attempts: Attempts) -> int:
        state, claimed = await self._claim(incarnation, start)
        position, floor = (state.position, state.floor) if state.incarnation == incarnation else (start, 0)
        mark = f"{self.name}:{incarnation}:"
        async for group in self._log.read(None, state.since, claimed):
            for stored in group:
                source = stored.headers.get(SOURCE)
                if source is not None and source.startswith(mark):
                    with suppress(ValueError):  # somebody else has written it, if it is no number
                        arrived = int(source[len(mark) :])
                        # it was written alone, so all before it had arrived, and where it is all, it has too
                        position = max(position, arrived)
                        floor = max(floor, arrived if WHOLE in stored.headers else arrived - 1)
        self._incarnation, self._fence, self.position, self.floor = incarnation, claimed, position, floor
        attempts.begin()
        await self.save(position, floor)
        return position

    def lift(self, floor: int) -> None:
        """Take in what another cursor of the same pump knows to have arrived everywhere."""
        self.position = max(self.position, floor)

    def pack(self, draft: Draft, source_position: int) -> Routed:
        """Make an effect of a stored record ready. Raises `InvalidEntry` and `InvalidName` if it cannot be stored."""
        source = {SOURCE: f"{self.name}:{self._incarnation}:{source_position}"}
        message = self._envelope.pack(draft, Lane.IN, self._clock(), source, checked=True)
        return Routed(message, draft.entry.kind(), source_position)

    async def append(self, routed: Routed, *, whole: bool = False) -> int:
        """Write the only effect that a source record has here; gives its position. `whole`: it has none elsewhere.

        Raises `ClaimLost` when another router has taken over; after `Unacknowledged` and `FenceRefused`, `take` again.
        """
        if ARMED:
            fault_point(self._log.name, "route", routed.kind, "before")
        message = routed.message
        if whole:
            message.headers[WHOLE] = "1"
        if self._envelope.is_large(message):
            message = await self._envelope.outsource(message)
        position = await self._fenced(self._log.append(message, Fence(self.subject, self._fence)))
        self.position = routed.source_position
        if ARMED:
            fault_point(self._log.name, "route", routed.kind, "after")
        return position

    async def append_all(self, effects: Sequence[Routed], upto: int, floor: int) -> None:
        """Write many effects and the cursor behind them, all or none. Raises what `append` raises."""
        if ARMED:
            fault_point(self._log.name, "route_all", "before")
        envelope = self._envelope
        messages = [
            await envelope.outsource(routed.message) if envelope.is_large(routed.message) else routed.message
            for routed in effects
        ]
        messages.append(self._state_message(upto, floor))
        self._fence = await self._fenced(self._log.append_all(messages, Fence(self.subject, self._fence)))
        self.position = self._saved = upto
        if ARMED:
            fault_point(self._log.name, "route_all", "after")

    async def save(self, position: int, floor: int) -> None:
        """Write the cursor. Raises what `append` raises."""
        message = self._state_message(position, floor)
        self._fence = await self._fenced(self._log.append(message, Fence(self.subject, self._fence)))
        self.position = self._saved = position

    async def _claim(self, incarnation: str, start: int) -> tuple[CursorState, int]:
        """The state that was found, with `since` filled in, and the position of our claim on it."""
        attempts = Attempts(self._patience)
        while True:
            found, since, newest = await self._find()
            if found is None:
                found = CursorState("", incarnation, start)
            elif self._is_newer(found):
                raise self._lost(found, newest)
            since = found.since or since
            state = CursorState(self.owner, found.incarnation, found.position, since, self.term, found.floor)
            attempts.begin()
            try:
                claimed = await self._log.append(self._message(state), Fence(self.subject, newest))
            except (FenceRefused, Unacknowledged) as error:
                await attempts.failed(error)
                continue
            return state, claimed

    async def _find(self) -> tuple[CursorState | None, int, int]:
        """The newest state that can be read, its position, and that of the newest message of the subject."""
        last = await self._log.last(self.subject)
        if last is None:
            return None, 0, 0
        state = _state_of(last)
        if state is not None:
            return state, last.position, last.position
        position = 0  # somebody else has written here: what counts is the last one that a router wrote
        async for group in self._log.read(self.subject, 0, last.position):
            for stored in group:
                if (found := _state_of(stored)) is not None:
                    state, position = found, stored.position
        return state, position, last.position

    def _is_newer(self, found: CursorState) -> bool:
        """Whether whoever wrote this began after us, or took over what we had taken."""
        if found.term.incarnation == self.term.incarnation:
            return found.term.position > self.term.position
        return found.owner != self.owner and self._fence > 0

    def _lost(self, found: CursorState, position: int) -> ClaimLost:
        return ClaimLost(self._log.name, f"the cursor of {self.name!r} (now {found.owner!r})", self.owner, position)

    async def _fenced(self, writing: Awaitable[int]) -> int:
        try:
            return await writing
        except FenceRefused:
            found, _, newest = await self._find()
            if found is not None and self._is_newer(found):
                raise self._lost(found, newest) from None
            raise

    def _state_message(self, position: int, floor: int) -> Message:
        return self._message(CursorState(self.owner, self._incarnation, position, 0, self.term, floor))

    def _message(self, state: CursorState) -> Message:
        return Message(self.subject, {}, msgspec.json.encode(state))


def _state_of(stored: Stored) -> CursorState | None:
    try:
        return msgspec.json.decode(stored.body, type=CursorState)
    except msgspec.MsgspecError:
        return None
