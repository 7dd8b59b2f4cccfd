"""The order of a run: outcomes are handed over one at a time, and again in the order in which they were recorded."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, NamedTuple

from policies._errors import NonDeterminismError
from policies._slot import Slot

_SETTLE_PASSES: Final = 25
_STUCK_PASSES: Final = 200


class _Event(NamedTuple):
    slot: Slot
    is_outcome: bool
    recorded: bool


class _Waiting(NamedTuple):
    future: asyncio.Future[None]
    does: str


class Order:
    """Decides who goes on when several calls of a run are under way side by side.

    Live, an outcome that was recorded is handed to its caller; but where calls are made side by side, only after the
    event loop has had time for all that the last call and the last outcome set off. On replay the same happens in the
    journal's order: an outcome is handed over when every call and every outcome that was recorded before it has found
    its caller. So branches that run side by side meet in the same order again, whatever they read: the ledger, the
    time, chance, or which of two equal calls came first. A run without such branches never waits here.

    A policy that makes its calls in another order than before still finds each of them, when nothing else moves any
    more. Nothing is written before everything recorded was handed over: if that comes to a standstill, the policy does
    not do what is recorded, and whoever wants to write gets a `NonDeterminismError`.
    """

    def __init__(self, run: str) -> None:
        self._run = run
        self._events: deque[_Event] = deque()
        self._left = 0
        self._open: set[Slot] = set()
        self._turns: dict[Slot, asyncio.Future[None]] = {}
        self._writers: deque[_Waiting] = deque()
        self._settling = self._watching = False
        self._passes = self._progress = 0

    def __repr__(self) -> str:
        return f"<Order of {self._run}: {self._left} recorded left, {len(self._open)} calls under way>"

    @property
    def replaying(self) -> bool:
        """Whether something recorded has not found its caller yet."""
        self._clear()
        return self._left > 0

    def called(self, slot: Slot) -> None:
        """This call stands in the journal, and nobody has made it in this process yet."""
        self._events.append(_Event(slot, False, True))
        self._left += 1

    def returned(self, slot: Slot) -> None:
        """The outcome of this call stands in the journal."""
        recorded = not slot.claimed
        self._events.append(_Event(slot, True, recorded))
        self._left += recorded
        if slot in self._turns:
            self._advance()

    def made(self, slot: Slot, *, side_by_side: bool) -> None:
        """The policy has made this call now, and it is under way; `side_by_side` says that others may come with it."""
        slot.claimed = True
        self._progress += 1
        if side_by_side or self._open:
            self._stir()
        self._open.add(slot)
        if self._turns or self._writers:
            self._advance()

    def enter(self, slot: Slot) -> None:
        """This scope's own calls have ended: it counts itself again."""
        self._open.add(slot)

    def leave(self, slot: Slot) -> None:
        """This call is now a scope whose own calls count in its place."""
        self._open.discard(slot)

    def abandon(self, slot: Slot) -> None:
        """Nobody waits for this call any more."""
        slot.dropped = True
        self._open.discard(slot)
        self._advance()

    async def turn(self, slot: Slot) -> None:
        """Wait until the recorded outcome of this call may be handed over."""
        self._clear()
        if not self._settling and self._events and self._events[0].slot is slot:
            self._hand_over()
            if self._writers:
                self._advance()
            return
        future = self._turns[slot] = asyncio.get_running_loop().create_future()
        try:
            self._advance()
            self._watch()
            await future
        finally:
            self._turns.pop(slot, None)

    async def written(self, does: str) -> None:
        """Wait until everything recorded was handed over, so that something new may be written.

        `does` says in words what the policy does. Raises `NonDeterminismError` when that does not happen.
        """
        if not self.replaying and not self._writers:
            return
        waiting = _Waiting(asyncio.get_running_loop().create_future(), does)
        self._writers.append(waiting)
        self._advance()
        self._watch()
        await waiting.future

    def fail(self, error: BaseException) -> None:
        """Let everybody who waits raise this."""
        for future in [*self._turns.values(), *(writer.future for writer in self._writers)]:
            if not future.done():
                future.set_exception(error)

    def _clear(self) -> None:
        """Take away what has found its caller, or never will."""
        events = self._events
        while events:
            event = events[0]
            if not event.slot.dropped and (event.is_outcome or not event.slot.claimed):
                return
            events.popleft()
            self._left -= event.recorded
            self._progress += 1

    def _advance(self) -> None:
        self._clear()
        if self._settling:
            return
        if self._events:
            future = self._turns.get(self._events[0].slot)
            if future is not None and not future.done():
                self._hand_over()
                future.set_result(None)
        if self._left == 0 and not self._settling:
            while self._writers:
                writer = self._writers.popleft().future
                if not writer.done():
                    writer.set_result(None)

    def _hand_over(self) -> None:
        self._handed_over(self._events.popleft())

    def _handed_over(self, event: _Event) -> None:
        self._left -= event.recorded
        self._progress += 1
        self._open.discard(event.slot)
        if self._open:
            self._stir()

    def _stir(self) -> None:
        """Let the event loop go round, so that all that was set off now happens before anything is handed over."""
        self._passes = _SETTLE_PASSES
        if not self._settling:
            self._settling = True
            asyncio.get_running_loop().call_soon(self._settle)

    def _settle(self) -> None:
        self._passes -= 1
        if self._passes:
            asyncio.get_running_loop().call_soon(self._settle)
        else:
            self._settling = False
            self._advance()

    def _watch(self) -> None:
        if not self._watching and self._left:
            self._watching = True
            self._look(self._progress, 0)

    def _look(self, progress: int, idle: int) -> None:
        """Go round with the event loop as long as somebody waits, and end it when nothing moves."""
        if not self._left or not (self._turns or self._writers):
            self._watching = False
        elif idle == _STUCK_PASSES:
            self._watching = False
            self._stuck()
        else:
            idle = idle + 1 if progress == self._progress else 0
            asyncio.get_running_loop().call_soon(self._look, self._progress, idle)

    def _stuck(self) -> None:
        """Nothing moves: calls come in another order than before, or a new one comes where a recorded one should."""
        self._clear()
        for event in self._events:
            future = self._turns.get(event.slot) if event.is_outcome else None
            if future is not None and not future.done():
                self._events.remove(event)
                self._handed_over(event)
                future.set_result(None)
                return self._watch()
        recorded = self._events[0].slot.described
        writers, self._writers = self._writers, deque()
        for writer in writers:
            if not writer.future.done():
                writer.future.set_exception(NonDeterminismError(self._run, recorded, writer.does))
        return None
