"""What the host runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Service(Protocol):
    """Something that runs until it is cancelled.

    Stopping is cancellation: every service can be cut anywhere, since whatever it did is in its journal and it goes
    on from there. A service that returns or raises by itself has failed, and the host restarts it.
    """

    @property
    def name(self) -> str:
        """The name in the configuration, e.g. `agents`."""
        ...

    async def run(self, ready: Callable[[], None]) -> None:
        """Do the work; call `ready()` once, when requests are being served."""
        ...
