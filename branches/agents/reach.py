"""How far a gate reaches: patterns that its arguments must match, because a ward narrowed it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import urlsplit

_ADDRESS = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")
_DOT = re.compile("%2e", re.IGNORECASE)


def out_of_reach(narrow: Mapping[str, Sequence[str]], arguments: Mapping[str, Any]) -> str | None:
    """Why a narrowed gate may not be called so; None if it may.

    An argument must be text and match every pattern for it: `*` stands for anything. It is compared as a path is
    written after `.` and `..` are taken out, so that `data/../secret` does not match `data/*`. In an address they are
    taken out of its path alone, as whoever asks for it does: they never lead out of its host.
    """
    for name, patterns in narrow.items():
        value = arguments.get(name)
        if not isinstance(value, str):
            return f"gate not available: a ward narrows its {name!r}, which must be given as text"
        plain = _plain(value)
        for pattern in patterns:
            if plain is None or (not fnmatchcase(plain, pattern) and not fnmatchcase(f"{plain}/", pattern)):
                return f"gate not available: a ward narrows its {name!r} to {pattern!r}, and {value!r} is outside"
    return None


def _plain(value: str) -> str | None:
    """The value as it is compared; None for an address that others may read in another way."""
    if not _ADDRESS.match(value):
        return posixpath.normpath(value)
    if "\\" in value or not value.isprintable():
        return None
    try:
        parts = urlsplit(value)
    except ValueError:
        return None
    path = posixpath.normpath(_DOT.sub(".", parts.path).lstrip("/"))
    if path.startswith(".."):
        return None
    return parts._replace(path="" if path == "." else f"/{path}").geturl()
