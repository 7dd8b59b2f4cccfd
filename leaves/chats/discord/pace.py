"""Not more requests a second than Discord takes of one bot, whatever they are about."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from policies import Alarm, Clock

_A_SECOND = 1.0
_can_wait: ContextVar[bool] = ContextVar("can_wait", default=False)


@contextmanager
def can_wait() -> Generator[None]:
    """What is asked within only shows that something is coming: it lets everything else go first."""
    token = _can_wait.set(True)
    try:
        yield
    finally:
        _can_wait.reset(token)


class Pace:
    """Lets at most `per_s` requests arrive in any one second, also when some are held up on their way.

    A request counts from when it goes until a second after its answer has come, for it may have arrived that late.
    """

    def __init__(self, clock: Clock, per_s: int) -> None:
        self._clock, self._free = clock, per_s
        self._pressing, self._waiting = deque[asyncio.Future[None]](), deque[asyncio.Future[None]]()
        self._counting: deque[Alarm] = deque()

    def __repr__(self) -> str:
        return f"<Pace {self._free} may go, {len(self._pressing)} wait and {len(self._waiting)} that can>"

    async def go(self) -> None:
        """Wait until one more request may go; those that `can_wait` go last. Its end must be told by `answered`."""
        turn = asyncio.get_running_loop().create_future()
        (self._waiting if _can_wait.get() else self._pressing).append(turn)
        self._let_go()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release()  # it was its turn, and it does not go
            raise

    def answered(self) -> None:
        """A request is over, however it went."""
        self._counting.append(self._clock.call_at(self._clock.now() + _A_SECOND, self._count_out))

    def close(self) -> None:
        """Ring no more."""
        while self._counting:
            self._counting.popleft().cancel()

    def _count_out(self) -> None:
        self._counting.popleft()
        self._release()

    def _release(self) -> None:
        self._free += 1
        self._let_go()

    def _let_go(self) -> None:
        while self._free and (turn := self._next()) is not None:
            self._free -= 1
            turn.set_result(None)

    def _next(self) -> asyncio.Future[None] | None:
        for queue in (self._pressing, self._waiting):
            while queue:
                turn = queue.popleft()
                if not turn.done():
                    return turn
        return None
