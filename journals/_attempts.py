"""How long a write is tried again where the server answers, and does not take it."""

from __future__ import annotations

import asyncio

from journals._errors import FenceRefused, StoreUnavailable, Unacknowledged

PATIENCE_S = 30.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.01, 1.0


class Attempts:
    """The attempts of one write. The second one is made at once, and the pause before each later one is longer.

    Only what the attempts and the pauses take counts against the patience. How long a server is away is bounded by
    whoever waits for its return.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._failed = 0
        self._spent = 0.0
        self._began: float | None = None

    def __repr__(self) -> str:
        return f"<Attempts {self._failed} failed, {self._spent:.2f} of {self._patience:.2f} s spent>"

    def begin(self) -> None:
        """An attempt begins now; of the first one this need not be said."""
        self._began = asyncio.get_running_loop().time()

    async def failed(self, error: FenceRefused | Unacknowledged) -> None:
        """The attempt ended so: wait before the next one, where that is due.

        A fence that is refused says that the subject moves on: what comes then is like a first attempt. Raises
        `StoreUnavailable` when the patience has ended.
        """
        if isinstance(error, FenceRefused):
            self._failed, self._spent = 0, 0.0
            return
        loop = asyncio.get_running_loop()
        if self._began is not None:
            self._spent += loop.time() - self._began
        if self._spent >= self._patience:
            raise StoreUnavailable(
                f"the server answers, but has not taken this for {self._patience:.0f} s ({error}); what was "
                "acknowledged is safe: `coven doctor` says more about the server"
            ) from None
        self._failed += 1
        if self._failed > 1:
            pause = min(_FIRST_PAUSE_S * 2 ** min(self._failed - 2, 10), _LONGEST_PAUSE_S)
            await asyncio.sleep(pause)
            self._spent += pause
        self._began = None
