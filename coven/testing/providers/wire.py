"""Small parts of all formats: events, schemas, and texts in pieces."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from coven.testing.providers.reply import require


def event(data: Mapping[str, Any] | str, name: str | None = None) -> bytes:
    """One server-sent event."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


def halves(text: str) -> tuple[str, ...]:
    """A text in a few pieces, as models write it."""
    third = max(1, len(text) // 3)
    return tuple(piece for piece in (text[:third], text[third : 2 * third], text[2 * third :]) if piece)


def check_schema(schema: object, where: str) -> None:
    """Tools have a JSON Schema of type object. Raises `Refused`."""
    found: Any = schema
    require(isinstance(schema, dict) and found.get("type") == "object", f"{where}: a schema of type object is required")
