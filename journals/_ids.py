"""Ids: derived from what they name, so that doing it again gives the same id; random only at the outer edge."""

from __future__ import annotations

import base64
import hashlib
import os

_BYTES = 15  # 120 bits: 24 characters of base32


def derive_id(*parts: str | int) -> str:
    """A 24-character id computed from the parts; the same parts always give the same id."""
    digest = hashlib.blake2b("\x1f".join(map(str, parts)).encode("utf-8", "surrogatepass"), digest_size=_BYTES)
    return base64.b32encode(digest.digest()).decode().lower()


def random_id() -> str:
    """A fresh 24-character id, for what comes from outside and has no identity of its own."""
    return base64.b32encode(os.urandom(_BYTES)).decode().lower()
