"""A port for the server that is still its own after a restart."""

from __future__ import annotations

import secrets
import socket

from journals._errors import StoreUnavailable

# Below the range from which every system takes the ports of outgoing connections (32768 on Linux, 49152 elsewhere):
# while the server is down, no client's own connection can land on its port and keep it from coming back.
_FIRST, _LAST = 20_000, 32_767
_ATTEMPTS = 100


class PortTaken(StoreUnavailable):
    """Something else listens on the port that the server needs."""

    def __init__(self, port: int) -> None:
        super().__init__(
            f"port {port} on 127.0.0.1, where clients look for the server, was taken by another program; end that "
            f"program (`ss -ltnp sport = :{port}` names it) and try again, or start the coven anew on another port"
        )
        self.port = port


def is_free(port: int) -> bool:
    """Whether a server could listen on this loopback port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def choose_port(former: int | None = None) -> int:
    """The former port if it is free, else a random one that is. Raises `StoreUnavailable` if none is found."""
    if former is not None and is_free(former):
        return former
    for _ in range(_ATTEMPTS):
        port = _FIRST + secrets.randbelow(_LAST - _FIRST + 1)
        if is_free(port):
            return port
    raise StoreUnavailable(f"no free port was found between {_FIRST} and {_LAST} on 127.0.0.1; end what occupies them")
