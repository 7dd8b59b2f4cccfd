"""The server of the page: uvicorn on a socket of ours, in our event loop, under our signals."""

from __future__ import annotations

import socket
from collections.abc import Generator
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette

from leaves.chats.web.messages import FRAME_LIMIT

_STOP_WITHIN_S = 1


class WebServer(uvicorn.Server):
    """Serves until `should_exit` is set; pages that are open then come back by themselves."""

    def __init__(self, app: Starlette) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                loop="none",
                http="h11",
                ws="websockets-sansio",
                ws_max_size=FRAME_LIMIT,
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=_STOP_WITHIN_S,
            )
        )

    def __repr__(self) -> str:
        return f"<WebServer {'serving' if self.started else 'not serving'}>"

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Signals are the host's business."""
        yield


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 is any free one. Raises `OSError`."""
    listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    listening.setblocking(False)
    return listening


def address_of(listening: socket.socket) -> str:
    """The URL of a listening socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
