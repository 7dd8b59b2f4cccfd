"""HTTP servers of ours: uvicorn on a socket of ours, in our event loop, under our signals."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import uvicorn

_STOP_WITHIN_S = 1
_WAITING = 512


class Server(uvicorn.Server):
    """Serves an ASGI application until `should_exit` is set; what is open a second later is cut off."""

    def __init__(self, app: Any, *, ws: str = "none", ws_max_size: int = 0) -> None:
        """`ws` is what speaks WebSocket, as uvicorn names it, `ws_max_size` the bytes of a frame at most."""
        logger = logging.getLogger("uvicorn.error")
        if not any(isinstance(each, _NotCutOff) for each in logger.filters):
            logger.addFilter(_NotCutOff())
        super().__init__(
            uvicorn.Config(
                app,
                loop="none",
                http="h11",
                ws=ws,
                ws_max_size=ws_max_size,
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=_STOP_WITHIN_S,
            )
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'serving' if self.started else 'not serving'}>"

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Signals are the host's business."""
        yield


class _NotCutOff(logging.Filter):
    """Lets all messages through but those of what was cut off at the end."""

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
