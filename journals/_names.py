"""Names from outside (sessions, routes) as safe subject tokens, and back."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import quote, unquote

from journals._errors import InvalidName

MAX_NAME_BYTES = 512
_COVEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@lru_cache(maxsize=65536)
def to_token(name: str, what: str = "session") -> str:
    """The name as one subject token: letters, digits, `-` and `_` stay, all else is percent-encoded UTF-8.

    Raises `InvalidName` for an empty name, one over 512 bytes, and one that is not valid Unicode.
    """
    if not name:
        raise InvalidName(what, name, "it is empty")
    try:
        token = quote(name, safe="").replace(".", "%2E").replace("~", "%7E")
    except UnicodeEncodeError as error:
        raise InvalidName(what, name, "it is not valid Unicode (a lone surrogate)") from error
    if len(token) > MAX_NAME_BYTES:
        raise InvalidName(what, name, f"it takes {len(token)} bytes when escaped, over the limit of {MAX_NAME_BYTES}")
    return token


@lru_cache(maxsize=65536)
def from_token(token: str) -> str | None:
    """The name that `to_token` made this token from; None for what it never makes."""
    try:
        name = unquote(token, errors="strict")
        return name if to_token(name) == token else None
    except (UnicodeDecodeError, InvalidName):
        return None


def check_plain_name(what: str, name: str) -> str:
    """The name itself if it is 1 to 64 letters, digits, `-` and `_`; else raises `InvalidName`."""
    if not _COVEN.fullmatch(name):
        raise InvalidName(what, name, "use 1 to 64 letters, digits, '-' or '_', beginning with a letter or digit")
    return name
