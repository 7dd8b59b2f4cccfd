"""The HTTP server: it tells those who wait before it cuts them off."""

from __future__ import annotations

from collections.abc import Callable

from coven.http.guard import Guard
from leaves.serving import Server


class HttpServer(Server):
    """Serves until it is told to stop. Requests that still wait are then cut off; their episodes are not."""

    def __init__(self, app: Guard, on_stop: Callable[[], None]) -> None:
        """`on_stop` tells those who wait, before they are cut off."""
        self._on_stop = on_stop
        super().__init__(app)

    def stop(self) -> None:
        """Take no more requests, and end."""
        self._on_stop()
        self.should_exit = True
