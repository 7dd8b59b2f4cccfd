"""One record as one line of JSON: for files that outlive the store, and for the command line."""

from __future__ import annotations

import msgspec

from journals._entry import Entry, EntryRegistry, Unreadable
from journals._errors import JournalError
from journals._record import Lane, Record


class InvalidLine(JournalError):
    """A line that is no exported record."""


class _Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The envelope, and the entry as JSON; of an entry that could not be decoded, its body in base64 and why."""

    journal: str
    position: int
    id: str
    kind: str
    version: int = 1
    session: str
    lane: Lane
    time: float
    correlation_id: str | None = None
    causation_id: str | None = None
    origin: str | None = None
    route: str | None = None
    hops: int = 0
    imported: bool = False
    entry: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    body: bytes | None = None
    unreadable: str | None = None


_ENVELOPE = tuple(name for name in Record.__struct_fields__ if name not in ("entry", "version"))
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Line)


def export_line(record: Record[Entry]) -> bytes:
    """The record as one line of JSON, without a line break. `time` is in seconds since the epoch."""
    envelope = {name: getattr(record, name) for name in _ENVELOPE}
    if isinstance(record.entry, Unreadable):
        line = _Line(**envelope, version=record.version, body=record.entry.body, unreadable=record.entry.reason)
    else:  # an older entry was brought up to date when it was read
        entry = msgspec.Raw(_encoder.encode(record.entry))
        line = _Line(**envelope, version=record.entry.schema_version, entry=entry)
    return _encoder.encode(line)


def parse_line(line: bytes, registry: EntryRegistry) -> Record[Entry]:
    """The record of an exported line. An entry that the registry cannot decode becomes `Unreadable` again.

    Raises `InvalidLine`.
    """
    try:
        parsed = _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidLine(f"this line is no exported record: {error}") from None
    body = parsed.body if isinstance(parsed.entry, msgspec.UnsetType) else bytes(parsed.entry)
    if body is None:
        raise InvalidLine("this line is no exported record: it has neither `entry` nor `body`")
    envelope = {name: getattr(parsed, name) for name in _ENVELOPE}
    return Record(**envelope, version=parsed.version, entry=registry.decode(parsed.kind, parsed.version, body))
