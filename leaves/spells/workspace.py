"""The folder that spells work in."""

from __future__ import annotations

import os

from branches.spellcasting import SpellFailed


def open_workspace(path: str) -> int:
    """A descriptor of the folder, made if it is missing; the caller closes it.

    Raises `SpellFailed` (`unavailable`) if it cannot be used, also on a system without `openat` (Windows), where no
    path can be opened beneath a folder without a race.
    """
    if os.open not in os.supports_dir_fd:
        raise SpellFailed("unavailable", "this system has no openat; run spellcasting on Linux, macOS or in WSL")
    try:
        os.makedirs(path, exist_ok=True)
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise SpellFailed(
            "unavailable", f"the workspace cannot be opened ({reason}); whoever runs Coven must mend `root`"
        ) from None
