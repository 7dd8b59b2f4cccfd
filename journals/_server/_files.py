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
