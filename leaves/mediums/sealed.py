"""Snapshots as bytes: which engine wrote them, and whether they are whole."""

from __future__ import annotations

import hashlib
import zlib

from branches.agents.medium import SnapshotRefused

_MAGIC = b"COVENSB1"
_DIGEST = 16


def seal(engine: bytes, content: bytes) -> bytes:
    """Content as a snapshot of this engine (a digest of all that must be the same to restore it)."""
    packed = zlib.compress(content, 1)
    return b"".join((_MAGIC, _digest(engine), _digest(packed), packed))


def unseal(medium: str, engine: bytes, snapshot: bytes, most: int) -> bytes:
    """The content again. Raises `SnapshotRefused`; also if it would be larger than `most` bytes."""
    head, packed = snapshot[: len(_MAGIC) + 2 * _DIGEST], snapshot[len(_MAGIC) + 2 * _DIGEST :]
    if len(head) < len(_MAGIC) + 2 * _DIGEST or not head.startswith(_MAGIC):
        raise SnapshotRefused(medium, "it is not a snapshot of a sandbox")
    if head[len(_MAGIC) : len(_MAGIC) + _DIGEST] != _digest(engine):
        raise SnapshotRefused(medium, "another engine, or another build of it, wrote it")
    if head[len(_MAGIC) + _DIGEST :] != _digest(packed):
        raise SnapshotRefused(medium, "it is damaged")
    unpacker = zlib.decompressobj()
    content = unpacker.decompress(packed, most)
    if unpacker.unconsumed_tail:
        raise SnapshotRefused(medium, f"it is larger than the {most} bytes that this sandbox may have")
    return content


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:_DIGEST]
