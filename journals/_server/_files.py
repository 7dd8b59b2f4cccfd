"""Files that only their owner reads, written whole or not at all, and what their failures mean to a person."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from journals._errors import JournalError, StoreFull, StoreUnavailable

_FULL = {errno.ENOSPC, errno.EDQUOT}
_NOT_WRITABLE = {errno.EROFS, errno.EACCES, errno.EPERM}
_NOT_A_FOLDER = {errno.ENOTDIR, errno.EEXIST}


def write_private(path: Path, content: bytes) -> None:
    """Replace the file's content in one step; mode 0600 from its first byte on. Raises `OSError`."""
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def explain(error: OSError, folder: Path) -> JournalError:
    """What a failed write in the coven's folder means, and what to do about it."""
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        return StoreFull(f"the disk that holds {folder} is full ({reason}); free some space and start again")
    if error.errno in _NOT_A_FOLDER:
        return StoreUnavailable(
            f"{folder} cannot be used: a file is in its place; remove that file or choose another folder"
        )
    if error.errno in _NOT_WRITABLE:
        return StoreUnavailable(
            f"{folder} cannot be written ({reason}); make it writable for this user, or choose another folder"
        )
    return StoreUnavailable(f"{folder} cannot be used ({reason}); choose another folder")


def check_writable(store: Path) -> None:
    """Look whether a server can read and write all of its store; one that is not there yet is fine.

    A server that finds a part of it shut may run for a while before it fails, and names a file and no cure.
    Raises `StoreUnavailable` about the folder or file that is in the way.
    """
    _check_access(str(store), folder=True)
    for path, folders, names in os.walk(store):
        for name in folders:
            _check_access(os.path.join(path, name), folder=True)
        for name in names:
            _check_access(os.path.join(path, name), folder=False)


def _check_access(path: str, *, folder: bool) -> None:
    wanted = os.R_OK | os.W_OK | (os.X_OK if folder else 0)
    if os.access(path, wanted, effective_ids=os.access in os.supports_effective_ids) or not os.path.lexists(path):
        return
    read_only = hasattr(os, "statvfs") and os.statvfs(path).f_flag & os.ST_RDONLY
    number = errno.EROFS if read_only else errno.EACCES
    raise explain(OSError(number, os.strerror(number)), Path(path))
