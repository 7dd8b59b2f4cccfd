"""Records as lines for people."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterable, Sequence

import msgspec

from branches.attachment import Attachment
from journals import Entry, Record, Unreadable


def record_line(record: Record[Entry], width: int | None) -> str:
    """Position, time, kind, session and fields of a record, its text first, cut to a width where there is one."""
    clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.time))
    line = f"{record.position:>6}  {clock}  {record.kind:<20} {record.session}  {_fields(record.entry)}"
    line = "".join(character if character.isprintable() else "\ufffd" for character in line)
    return line if width is None or len(line) <= width else line[: width - 1] + "…"


def terminal_width() -> int | None:
    """The width of the terminal that standard output is, or None if it is something else."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def columns(rows: Iterable[Sequence[object]], header: Sequence[str]) -> Iterable[str]:
    """A table as lines, each column as wide as it needs."""
    cells = [tuple(header), *(tuple(map(str, row)) for row in rows)]
    widths = [max(len(row[index]) for row in cells) for index in range(len(header))]
    for row in cells:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _fields(entry: Entry) -> str:
    if isinstance(entry, Unreadable):
        return f"(unreadable: {entry.reason})"
    fields = msgspec.json.decode(msgspec.json.encode(entry), type=dict[str, msgspec.Raw])
    told = {name: bytes(value).decode() for name, value in fields.items() if name != "kind"}
    if "attachments" in told:  # their bytes are nothing for people
        attachments: tuple[Attachment, ...] = getattr(entry, "attachments", ())
        told["attachments"] = f"[{', '.join(f'{each.name} ({len(each.body):,} bytes)' for each in attachments)}]"
    first = sorted(told, key=lambda name: name != "text")  # what was said, where a narrow terminal still shows it
    return " ".join(f"{name}={told[name]}" for name in first if told[name] != "null")
