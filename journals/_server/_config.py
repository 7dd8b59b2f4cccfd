"""The configuration that the embedded server runs with. `docs/jetstream.md` explains each line."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from journals._errors import StoreFull
from journals._server._address import Durability
from journals._server._folder import PID_FILE

STORE_FOLDER = "nats"
RESERVE_BYTES = 64 * 1024 * 1024
SYNC_INTERVAL: dict[Durability, str] = {"power": "always", "process": "2m"}


def render_config(*, port: int, token: str, durability: Durability, max_file_bytes: int) -> str:
    """The text of `server.conf`. Paths are relative: the server runs in the folder, whatever its name is."""
    return f"""\
# Written by coven at every start; changes are lost.
server_name: coven
listen: "127.0.0.1:{port}"
authorization {{ token: "{token}" }}
max_payload: 1MB
pid_file: "{PID_FILE}"
logtime_utc: true
jetstream {{
  store_dir: "{STORE_FOLDER}"
  sync_interval: {SYNC_INTERVAL[durability]}
  max_memory_store: 256MB
  max_file_store: {max_file_bytes}
}}
"""


def file_limit(folder: Path, reserve: int) -> int:
    """The bytes that the store may grow to: what it holds, and what is free but for the reserve.

    The limit makes a full disk a refused write; without it the server would run into the disk's end and switch
    JetStream off. Raises `StoreFull` when not even the reserve is free, `OSError` when the folder cannot be read.
    """
    free = shutil.disk_usage(folder).free
    if free < reserve:
        raise StoreFull(
            f"the disk that holds {folder} has {free / 1e6:.0f} MB left and the server needs "
            f"{reserve / 1e6:.0f}; free some space and start again"
        )
    return store_bytes(folder) + free - reserve


def store_bytes(folder: Path) -> int:
    """What the store of this folder takes on the disk, in bytes."""
    total = 0
    for path, _, names in os.walk(folder / STORE_FOLDER):
        for name in names:
            try:
                total += os.lstat(os.path.join(path, name)).st_size
            except FileNotFoundError:  # the server removes files as it goes
                continue
    return total
