"""Journals as files of JSON lines: out, and in again."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import BinaryIO

import msgspec

from journals import Appended, Entry, EntryRegistry, Journal, JournalError, Record, export_line, parse_line

Progress = Callable[[int], None]


class ImportFailed(JournalError):
    """A line that could not be imported. Those before it are; importing the file again skips them."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(f"line {number}: {reason}; what stands before it is imported, and is skipped the next time")
        self.number, self.reason = number, reason


class Imported(msgspec.Struct, frozen=True):
    """How many records an import wrote, and how many were there already."""

    written: int
    present: int


async def export_records(records: AsyncIterator[Record[Entry]], target: BinaryIO, progress: Progress) -> int:
    """Write the records as lines; gives their number. `progress` hears every position."""
    count = 0
    async for record in records:
        target.write(export_line(record) + b"\n")
        count += 1
        progress(record.position)
    target.flush()
    return count


async def import_lines(
    lines: Iterable[bytes], journal: Journal, registry: EntryRegistry, progress: Progress
) -> Imported:
    """Write exported records under their own ids and times, marked as imported. `progress` hears the bytes read.

    Raises `ImportFailed`.
    """
    written = present = read = 0
    for number, line in enumerate(lines, 1):
        read += len(line)
        if line.strip():
            appended = await _import(line, number, journal, registry)
            written += appended.created
            present += not appended.created
        progress(read)
    return Imported(written, present)


async def _import(line: bytes, number: int, journal: Journal, registry: EntryRegistry) -> Appended:
    try:
        return await journal.import_record(parse_line(line, registry))
    except JournalError as error:
        raise ImportFailed(number, str(error)) from error


class WholeFile:
    """A file that appears under its name when all of it is written, and not at all when something fails."""

    def __init__(self, path: Path) -> None:
        self._path, self._part = path, path.with_name(f".{path.name}.part")

    def __enter__(self) -> BinaryIO:
        self._file = self._part.open("wb")
        return self._file

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._file.close()
        if kind is None:
            os.replace(self._part, self._path)
        else:
            self._part.unlink(missing_ok=True)
