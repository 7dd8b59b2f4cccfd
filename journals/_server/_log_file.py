"""The server's log: appended, kept below a limit by moving the older part aside, and never a reason to fail."""

from __future__ import annotations

import os
from collections import deque
from contextlib import suppress
from pathlib import Path

LIMIT_BYTES = 4 * 1024 * 1024
TAIL_LINES = 40


class LogFile:
    """One log and its predecessor `<name>.1`, each at most `limit` bytes. Used by one thread."""

    def __init__(self, path: Path, limit: int = LIMIT_BYTES) -> None:
        self.path, self._limit = path, limit
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._descriptor: int | None = None
        self._size = 0

    def __repr__(self) -> str:
        return f"<LogFile {self.path} {self._size} bytes>"

    def write(self, line: bytes) -> None:
        """Append a line. A full or vanished disk costs the line in the file, not in `tail`, and nothing else."""
        self.tail.append(line.decode(errors="replace").rstrip())
        with suppress(OSError):
            if self._descriptor is not None and self._size + len(line) > self._limit:
                self.close()
                self.path.replace(self.path.with_name(f"{self.path.name}.1"))
            if self._descriptor is None:
                self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                self._size = os.fstat(self._descriptor).st_size
            self._size += os.write(self._descriptor, line)

    def close(self) -> None:
        """Close the file; the next line opens it again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
