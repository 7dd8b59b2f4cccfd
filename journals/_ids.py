"""Ids: derived from what they name, so that doing it again gives the same id; random only at the outer edge."""

from __future__ import annotations

import hashlib
import os
import random

_BYTES = 12  # 96 bits: two of a billion ids are the same with a chance of one in 10^11


def derive_id(*parts: str | int) -> str:
    """A 24-character id computed from the parts; the same parts always give the same id."""
    named = "\x1f".join(map(str, parts)).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(named, digest_size=_BYTES).hexdigest()


class DerivedIds:
    """Ids of two numbers behind parts that are always the same, for a third of the time.

    `DerivedIds("a", "b")(1, 2)` is `derive_id("a", "b", 1, 2)`.
    """

    def __init__(self, *parts: str | int) -> None:
        self._parts = parts
        named = "".join([f"{part}\x1f" for part in parts]).encode("utf-8", "surrogatepass")
        self._begun = hashlib.blake2b(named, digest_size=_BYTES)

    def __repr__(self) -> str:
        return f"<DerivedIds of {self._parts}>"

    def __call__(self, first: int, second: int) -> str:
        """The id of these two parts more."""
        whole = self._begun.copy()
        whole.update(b"%d\x1f%d" % (first, second))
        return whole.hexdigest()


def random_id() -> str:
    """A fresh 24-character id, for what comes from outside and has no identity of its own. It is no secret."""
    return f"{_random.getrandbits(_BYTES * 8):0{_BYTES * 2}x}"


_random = random.Random()  # seeded by the system; asking the system for each id takes a fifth of an append
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.seed)
