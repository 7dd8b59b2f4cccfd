"""Where the embedded server of a folder can be reached: `<folder>/server.json`, readable by its owner alone."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from journals._errors import StoreRefused, StoreUnavailable
from journals._server._files import write_private
from journals._server._info import read_info

Durability = Literal["power", "process"]
"""`power`: every acknowledged write is on the disk. `process`: it survives any `kill -9`, and not a power cut."""

ADDRESS_FILE = "server.json"


class ServerAddress(msgspec.Struct, frozen=True, kw_only=True):
    """How to connect to an embedded server, and which one it is. `started` is in seconds since the epoch."""

    url: str
    token: str
    pid: int
    owner: int
    server_id: str
    version: str
    durability: Durability
    started: float

    def __repr__(self) -> str:
        return f"<ServerAddress {self.url} pid {self.pid}, nats-server {self.version}, {self.durability}>"

    @property
    def port(self) -> int:
        """The port of `url`."""
        return int(self.url.rpartition(":")[2])


def read_address(folder: Path) -> ServerAddress | None:
    """What `server.json` says, whether that server still lives or not; None when there is none that can be read.

    Raises `StoreRefused` when the file belongs to another user.
    """
    path = folder / ADDRESS_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=ServerAddress)
    except PermissionError:
        raise StoreRefused(f"{path} belongs to another user; run this as the user who started the coven") from None
    except (OSError, msgspec.DecodeError):
        return None


def write_address(folder: Path, address: ServerAddress) -> None:
    """Put the address where other processes look for it, whole or not at all."""
    write_private(folder / ADDRESS_FILE, msgspec.json.format(msgspec.json.encode(address)))


async def find_server(folder: Path) -> ServerAddress | None:
    """The embedded server that runs for this folder now; None when there is none.

    A file left over by a server that was killed is recognised: whoever listens on its port has another id.
    Raises `StoreRefused` when the coven of this folder belongs to another user.
    """
    address = read_address(folder)
    if address is None:
        return None
    try:
        info = await read_info(address.url)
    except StoreUnavailable:
        return None
    return address if info.server_id == address.server_id else None
