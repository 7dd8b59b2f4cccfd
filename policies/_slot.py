"""What one process knows of one call."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from policies._action import Action
from policies._codec import Outcome


class CallTime(NamedTuple):
    """When a call was made and when it ended, as it is recorded, in seconds since the epoch.

    `made` is 0 while nothing is recorded of it. `policy` is None where the journal holds the call by reference only.
    """

    id: str
    scope: str
    policy: str | None
    made: float
    ended: float | None


class Slot:
    """One call: what was recorded of it, whether its caller has come, and who waits for its outcome."""

    __slots__ = (
        "_waiter",
        "action",
        "attempts",
        "claimed",
        "dropped",
        "due",
        "outcome",
        "retry_at",
        "scope",
        "seed",
        "time",
    )

    def __init__(self, action: Action | None, time: float = 0.0, scope: str = "", seed: str | None = None) -> None:
        self.action, self.time, self.scope, self.seed = action, time, scope, seed
        self.attempts = 0
        self.due: float | None = None
        """When a timer rings, or a waiting ends; seconds since the epoch."""
        self.retry_at: float | None = None
        """When the next attempt is due, after one that failed."""
        self.outcome: Outcome | None = None
        self.claimed = False
        """Whether the policy has made this call in this process."""
        self.dropped = False
        """Whether nobody in this process will ask for its outcome."""
        self._waiter: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"<Slot attempts={self.attempts} {'open' if self.outcome is None else 'settled'}>"

    @property
    def described(self) -> str:
        """The call in words, for messages."""
        if self.action is None:
            return "a call that its journal holds by reference"
        return f"a call of {self.action.policy!r} with {short(self.action.payload)}"

    def times(self, id: str) -> CallTime:
        """When the call was made and when it ended."""
        policy = None if self.action is None else self.action.policy
        return CallTime(id, self.scope, policy, self.time, None if self.outcome is None else self.outcome.time)

    def wake(self) -> None:
        """Let whoever waits look again."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def fail(self, error: BaseException) -> None:
        """Let whoever waits raise this."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)

    async def changed(self) -> None:
        """Wait until somebody calls `wake` or `fail`."""
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter


def short(payload: object) -> str:
    """A payload as text, cut where it gets long."""
    text = repr(payload)
    return text if len(text) <= 200 else f"{text[:200]}…"
