"""The coven's folder: who owns it, and the lock that says so as long as the owner or its server lives."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from journals._errors import StoreUnavailable
from journals._server._address import find_server
from journals._server._files import explain

LOCK_FILE = "lock"
PID_FILE = "nats.pid"
CONFIG_FILE = "server.conf"
_POLL = 0.005
_LOCK_BYTE = 1 << 30  # far behind the content, so that Windows lets others read who holds it


class FolderTaken(StoreUnavailable):
    """Another living coven owns this folder."""

    def __init__(self, folder: Path, owner: int | None) -> None:
        who = "another process" if owner is None else f"the coven with process id {owner}"
        what = "stop it" if owner is None else f"stop it (`kill {owner}`)"
        super().__init__(
            f"{folder} is in use by {who}; {what}, or join it with `coven run --only <branch>`, or use another folder"
        )
        self.folder, self.owner = folder, owner


class _Owner(msgspec.Struct, frozen=True):
    pid: int
    born: str


class FolderLock:
    """Sole ownership of a folder.

    The kernel releases it when the last process that holds the descriptor has ended, however it ended. The server
    holds it too: nobody starts a second one on a store that a dying one still writes.
    """

    def __init__(self, folder: Path, descriptor: int) -> None:
        self.folder, self.descriptor = folder, descriptor

    def __repr__(self) -> str:
        return f"<FolderLock {self.folder}>"

    def release(self) -> None:
        """Give the folder up."""
        with suppress(OSError):
            os.close(self.descriptor)


async def take_folder(folder: Path, grace: float) -> FolderLock:
    """Make the folder if it is new, and own it; a server that outlived its owner is ended first.

    That server gets `grace` seconds to end by itself before it is killed.
    Raises `FolderTaken`, `StoreUnavailable` for a folder that cannot be used, `StoreFull` for a full disk.
    """
    try:
        descriptor = _open_lock(folder)
    except OSError as error:
        raise explain(error, folder) from error
    try:
        if not _try_lock(descriptor):
            owner = _read_owner(descriptor)
            if owner is None or _birth(owner.pid) == owner.born:
                raise FolderTaken(folder, owner and owner.pid)
            await _end_orphan(folder, descriptor, grace)
        elif sys.platform == "win32":
            await _end_unlocked_orphan(folder)
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, msgspec.json.encode(_Owner(os.getpid(), _birth(os.getpid()) or "")))
    except OSError as error:
        os.close(descriptor)
        raise explain(error, folder) from error
    except BaseException:
        os.close(descriptor)
        raise
    return FolderLock(folder, descriptor)


def _open_lock(folder: Path) -> int:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)


def _try_lock(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(descriptor, _LOCK_BYTE, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _read_owner(descriptor: int) -> _Owner | None:
    os.lseek(descriptor, 0, os.SEEK_SET)
    try:
        return msgspec.json.decode(os.read(descriptor, 4096), type=_Owner)
    except msgspec.DecodeError:  # taken this very moment, not yet signed
        return None


def _birth(pid: int) -> str | None:
    """When the process began, in the kernel's own count, so that a reused pid is not mistaken; None if it is gone."""
    if sys.platform == "linux":
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
        except (OSError, IndexError):
            return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        return ""
    return ""


async def _end_orphan(folder: Path, descriptor: int, grace: float) -> None:
    """The owner is dead and its server still holds the lock: end the server, and have the lock."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        pid = await _server_pid(folder)
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, sign)
        deadline = time.monotonic() + grace
        while time.monotonic() < deadline:
            if _try_lock(descriptor):
                return
            await asyncio.sleep(_POLL)  # a lock cannot be awaited without a thread that nobody can cancel
    raise FolderTaken(folder, None)


async def _end_unlocked_orphan(folder: Path) -> None:
    """Windows hands no lock on to a child: a server that outlived its owner is known by its address alone."""
    address = await find_server(folder)
    if address is not None:
        with suppress(OSError):
            os.kill(address.pid, signal.SIGTERM)


async def _server_pid(folder: Path) -> int | None:
    """The process id of this folder's server, if that process really is it."""
    if sys.platform == "linux":
        return _written_pid(folder)
    address = await find_server(folder)
    return None if address is None else address.pid


def _written_pid(folder: Path) -> int | None:
    try:
        pid = int((folder / PID_FILE).read_text())
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    return pid if os.fsencode(folder / CONFIG_FILE) in arguments else None
