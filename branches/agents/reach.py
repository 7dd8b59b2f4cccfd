"""How far a gate reaches: patterns that its arguments must match, because a ward narrowed it."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any


def out_of_reach(narrow: Mapping[str, Sequence[str]], arguments: Mapping[str, Any]) -> str | None:
    """Why a narrowed gate may not be called so; None if it may.

    An argument must be text and match every pattern for it: `*` stands for anything. It is compared as a path is
    written after `.` and `..` are taken out, so that `data/../secret` does not match `data/*`.
    """
    for name, patterns in narrow.items():
        value = arguments.get(name)
        if not isinstance(value, str):
            return f"gate not available: a ward narrows its {name!r}, which must be given as text"
        for pattern in patterns:
            plain = _plain(value)
            if not fnmatchcase(plain, pattern) and not fnmatchcase(f"{plain}/", pattern):
                return f"gate not available: a ward narrows its {name!r} to {pattern!r}, and {value!r} is outside"
    return None


def _plain(value: str) -> str:
    scheme, found, rest = value.partition("://")
    if found:
        return f"{scheme}://{posixpath.normpath(rest)}"
    return posixpath.normpath(value)
