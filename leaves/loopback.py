"""Addresses of this machine: who may listen without a token, and what a request may name as its host then."""

from __future__ import annotations

import ipaddress
import re

_HOST = re.compile(r"(\[[^\[\]@]+\]|[^:\[\]@]+)(?::[0-9]*)?")


def is_loopback(host: str) -> bool:
    """Whether a name or an address is this machine's own."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def without_port(header: str) -> str:
    """The name or the address in the header `Host` of a request; empty where that is none."""
    host = _HOST.fullmatch(header)
    return "" if host is None else host[1]
