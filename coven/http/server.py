"""The HTTP server: uvicorn on a socket of ours, in our event loop, under our signals."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager

import uvicorn

from coven.http.guard import Guard

_STOP_WITHIN_S = 1
_WAITING = 512


class HttpServer(uvicorn.Server):
    """Serves until it is told to stop. Requests that still wait are then cut off; their episodes are not."""

    def __init__(self, app: Guard, on_stop: Callable[[], None]) -> None:
        """`on_stop` tells those who wait, before they are cut off."""
        self._on_stop = on_stop
        logger = logging.getLogger("uvicorn.error")
        if not any(isinstance(each, _NotCutOff) for each in logger.filters):
            logger.addFilter(_NotCutOff())
        super().__init__(
            uvicorn.Config(
                app,
                loop="none",
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=_STOP_WITHIN_S,
            )
        )

    def __repr__(self) -> str:
        return f"<HttpServer {'serving' if self.started else 'not serving'}>"

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Signals are the host's business."""
        yield

    def stop(self) -> None:
        """Take no more requests, and end."""
        self._on_stop()
        self.should_exit = True


class _NotCutOff(logging.Filter):
    """Lets all messages through but those of requests that were cut off at the end."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.exc_info is None or not isinstance(record.exc_info[1], asyncio.CancelledError)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 is any free one. Raises `OSError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.create_server((host, port), family=family, backlog=_WAITING)
    listening.setblocking(False)
    return listening


def address_of(listening: socket.socket) -> str:
    """The URL of a listening socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
