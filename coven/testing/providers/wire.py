"""Small parts of all formats: events, schemas, and texts in pieces."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

from coven.testing.providers.reply import require

UNREADABLE: Final = b"unreadable"
"""An image that holds these bytes is one that no provider can read."""
_BEGINNINGS: Final = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}


def event(data: Mapping[str, Any] | str, name: str | None = None) -> bytes:
    """One server-sent event."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


def halves(text: str) -> tuple[str, ...]:
    """A text in a few pieces, as models write it."""
    third = max(1, len(text) // 3)
    return tuple(piece for piece in (text[:third], text[third : 2 * third], text[2 * third :]) if piece)


def check_image(type: object, data: object, where: str) -> None:
    """An image has a type that providers take, and its bytes, in base64, are such an image. Raises `Refused`."""
    require(type in _BEGINNINGS, f"{where}: {type!r} is no type of image that is supported")
    try:
        body = base64.b64decode(str(data), validate=True)
    except ValueError:
        body = b""
    require(body.startswith(_BEGINNINGS[str(type)]), f"{where}: Could not process image")
    require(UNREADABLE not in body, f"{where}: Could not process image")


def check_image_url(url: object, where: str) -> None:
    """The same for an image that is the whole of its URL."""
    head, _, data = str(url).partition(";base64,")
    check_image(head.removeprefix("data:"), data, where)


def check_schema(schema: object, where: str) -> None:
    """Tools have a JSON Schema of type object. Raises `Refused`."""
    found: Any = schema
    require(isinstance(schema, dict) and found.get("type") == "object", f"{where}: a schema of type object is required")
