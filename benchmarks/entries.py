"""Entries of 256 bytes."""

from __future__ import annotations

from journals import Entry, EntryRegistry

TEXT = "x" * 200


class Asked(Entry, frozen=True, kw_only=True):
    text: str
    number: int = 0


class Told(Entry, frozen=True, kw_only=True):
    body: str
    number: int = 0


BODY = b'{"kind":"Asked","text":"' + b"x" * 230 + b'"}'
assert len(BODY) == 256


def registry() -> EntryRegistry:
    return EntryRegistry((Asked, Told))


def asked(number: int = 0) -> Asked:
    return Asked(text="x" * (256 - 36 - len(str(number))), number=number)


assert len(registry().encode(asked(7))) == 256, len(registry().encode(asked(7)))
