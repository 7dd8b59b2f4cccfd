"""The order of a scope: outcomes are handed over one at a time, again in the order in which they were recorded."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from policies._errors import NonDeterminismError
from policies._slot import Slot

_SETTLE_PASSES: Final = 25
_STUCK_PASSES: Final = 200
_STUCK_LOOKS: Final = 5
_LOOK_S: Final = 0.02


class Tally:
    """What the scopes of a run have in common: how much moves, and how much that was recorded is still to come."""

    __slots__ = ("left", "progress")

    def __init__(self) -> None:
        self.left = self.progress = 0

    def __repr__(self) -> str:
        return f"<Tally {self.left} recorded left>"


class _Event(NamedTuple):
    slot: Slot
    is_outcome: bool
    recorded: bool


class _Writer(NamedTuple):
    future: asyncio.Future[None]
    does: Callable[[], str]


class Order:
    """Decides who goes on when several calls of a scope are under way side by side.

    Live, an outcome that was recorded is handed to its caller; but where calls are made side by side, only after the
    event loop has had time for all that the last call and the last outcome set off. On replay the same happens in the
    journal's order: an outcome is handed over when every call and every outcome that was recorded before it has found
    its caller. So branches that run side by side meet in the same order again, whatever they read: the ledger, the
    time, chance, or which of two equal calls came first. A scope without such branches never waits here.

    A policy that makes its calls in another order than before still finds each of them, when nothing else moves any
    more. Nothing new is called before everything recorded was handed over: if that comes to a standstill, the policy
    does not do what is recorded, and whoever makes a new call gets a `NonDeterminismError`.
    """

    def __init__(self, run: str, tally: Tally) -> None:
        self._run, self._tally = run, tally
        self._events: deque[_Event] = deque()
        self._left = self._passes = 0
        self._open: set[Slot] = set()
        self._turns: dict[Slot, asyncio.Future[None]] = {}
        self._writers: deque[_Writer] = deque()
        self._settling = self._watching = False

    def __repr__(self) -> str:
        return f"<Order of {self._run}: {self._left} recorded left, {len(self._open)} calls under way>"

    def called(self, slot: Slot) -> None:
        """This call stands in the journal, and nobody has made it in this process yet."""
        self._add(_Event(slot, False, True))

    def returned(self, slot: Slot) -> None:
        """The outcome of this call stands in the journal."""
        self._add(_Event(slot, True, not slot.claimed))
        if slot in self._turns:
            self._advance()

    def made(self, slot: Slot, *, side_by_side: bool) -> None:
        """The policy has made this call now, and it is under way; `side_by_side` says that others may come with it."""
        slot.claimed = True
        self._tally.progress += 1
        if side_by_side or self._open:
            self._stir()
        self._open.add(slot)
        if self._turns or self._writers:
            self._advance()

    def abandon(self, slot: Slot) -> None:
        """Nobody waits for this call any more."""
        slot.dropped = True
        self._open.discard(slot)
        self._advance()

    def close(self) -> None:
        """The scope has ended: nothing of it will be asked for any more."""
        while self._events:
            self._took(self._events.popleft())

    def clear(self) -> None:
        """Take away what has found its caller, or never will."""
        events = self._events
        while events:
            event = events[0]
            if not event.slot.dropped and (event.is_outcome or not event.slot.claimed):
                return
            self._took(events.popleft())

    async def turn(self, slot: Slot) -> None:
        """Wait until the recorded outcome of this call may be handed over."""
        self.clear()
        if not self._settling and self._events and self._events[0].slot is slot:
            self._hand_over(self._events.popleft())
            if self._writers:
                self._advance()
            return
        future = self._turns[slot] = asyncio.get_running_loop().create_future()
        try:
            self._advance()
            self._watch()
            await future
        finally:
            del self._turns[slot]

    async def caught_up(self, does: Callable[[], str]) -> None:
        """Wait until everything recorded in this scope was handed over, so that something new may be done.

        `does` says in words what the policy does. Raises `NonDeterminismError` when that does not happen.
        """
        self.clear()
        if self._left or self._writers:
            writer = _Writer(asyncio.get_running_loop().create_future(), does)
            self._writers.append(writer)
            self._advance()
            self._watch()
            await writer.future

    def fail(self, error: BaseException) -> None:
        """Let everybody who waits raise this."""
        for future in [*self._turns.values(), *(writer.future for writer in self._writers)]:
            if not future.done():
                future.set_exception(error)

    def _add(self, event: _Event) -> None:
        self._events.append(event)
        self._left += event.recorded
        self._tally.left += event.recorded

    def _took(self, event: _Event) -> None:
        self._left -= event.recorded
        self._tally.left -= event.recorded
        self._tally.progress += 1

    def _hand_over(self, event: _Event) -> None:
        self._took(event)
        self._open.discard(event.slot)
        if self._open:
            self._stir()

    def _advance(self) -> None:
        self.clear()
        if self._settling:
            return
        if self._events:
            future = self._turns.get(self._events[0].slot)
            if future is not None and not future.done():
                self._hand_over(self._events.popleft())
                future.set_result(None)
        if self._left == 0 and not self._settling:
            while self._writers:
                future = self._writers.popleft().future
                if not future.done():
                    future.set_result(None)

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
            self._look(self._tally.progress, 0)

    def _look(self, progress: int, idle: int) -> None:
        """Go round with the event loop as long as somebody waits, and end the waiting when nothing moves any more."""
        self._watching = bool(self._left and (self._turns or self._writers))
        if not self._watching:
            return
        idle = idle + 1 if progress == self._tally.progress else 0
        loop = asyncio.get_running_loop()
        if idle < _STUCK_PASSES or self._out_of_order():
            loop.call_soon(self._look, self._tally.progress, idle)
        elif idle < _STUCK_PASSES + _STUCK_LOOKS:
            loop.call_later(_LOOK_S, self._look, self._tally.progress, idle)
        elif not self._drifted():
            loop.call_later(_LOOK_S, self._look, self._tally.progress, 0)
        else:
            self._watching = False

    def _out_of_order(self) -> bool:
        """Hand the next outcome over whose caller is here, since those before it do not come."""
        for event in self._events:
            future = self._turns.get(event.slot) if event.is_outcome else None
            if future is not None and not future.done():
                self._events.remove(event)
                self._hand_over(event)
                future.set_result(None)
                return True
        return False

    def _drifted(self) -> bool:
        """Tell who makes new calls that a recorded one does not come; gives whether that is so."""
        self.clear()
        missing = next((event.slot for event in self._events if not event.slot.claimed), None)
        if missing is None:
            return False
        writers, self._writers = self._writers, deque()
        for writer in writers:
            if not writer.future.done():
                writer.future.set_exception(NonDeterminismError(self._run, missing.described, writer.does()))
        return True
