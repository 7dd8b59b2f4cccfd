"""Addresses as they may be shown."""

from __future__ import annotations

import re

_CREDENTIALS = re.compile(r"(?<=://)[^/?#]*@")


def without_credentials(url: str) -> str:
    """The address without user, password and token: for messages, logs and `repr`. Takes a comma-separated list too."""
    return ",".join(_CREDENTIALS.sub("", part) for part in url.split(","))
