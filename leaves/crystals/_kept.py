"""What a model wants back with the next request, as it stands in `CrystalResponse.opaque`: JSON text.

Its own words and calls are in the response already, so only their places are kept, and whole what nobody else reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from leaves.crystals._transcript import Said

Block = int | dict[str, Any] | None
"""The length of a text, something opaque as it is, or nothing for the next tool call."""
_encoder = msgspec.json.Encoder(order="sorted")


class _Kept(msgspec.Struct, frozen=True):
    prefix: str
    blocks: tuple[Block, ...]


def keep(blocks: Sequence[Block], prefix: str = "") -> str | None:
    """The text, or None where there is nothing opaque. `prefix` is the digest of what it holds behind."""
    if not any(isinstance(block, dict) for block in blocks):
        return None
    return _encoder.encode(_Kept(prefix, tuple(blocks))).decode()


def restore(said: Said, model: str, prefix: str = "") -> tuple[str | dict[str, Any] | None, ...] | None:
    """The blocks of an utterance with their texts; None for one of another model, or behind something else."""
    if said.opaque is None or said.model != model:
        return None
    try:
        kept = msgspec.json.decode(said.opaque, type=_Kept)
    except msgspec.DecodeError:
        return None
    content = said.content or ""
    texts = sum(block for block in kept.blocks if isinstance(block, int))
    fits = texts == len(content) and sum(block is None for block in kept.blocks) == len(said.tool_calls)
    return tuple(_with_texts(kept.blocks, content)) if fits and kept.prefix == prefix else None


def _with_texts(blocks: Iterable[Block], content: str) -> Iterable[str | dict[str, Any] | None]:
    for block in blocks:
        if isinstance(block, int):
            yield content[:block]
            content = content[block:]
        else:
            yield block
