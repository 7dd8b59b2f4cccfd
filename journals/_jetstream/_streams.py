"""Opening a stream: made if it is new, compared with what it must be if it is not."""

from __future__ import annotations

from typing import Any

import msgspec

from journals._errors import StoreMismatch, StoreUnavailable
from journals._jetstream._connection import Connection
from journals._jetstream._settings import StreamSettings, check_settings

_IN_USE, _NOT_FOUND = 10058, 10059


async def open_stream(connection: Connection, settings: StreamSettings) -> dict[str, Any]:
    """The server's information about the stream. Raises `StoreMismatch`, `StoreUnavailable`."""
    info = await connection.api(f"STREAM.INFO.{settings.name}")
    if info.get("error", {}).get("err_code") == _NOT_FOUND:
        info = await connection.api(f"STREAM.CREATE.{settings.name}", msgspec.to_builtins(settings))
        if info.get("error", {}).get("err_code") == _IN_USE:  # somebody else made it just now
            info = await connection.api(f"STREAM.INFO.{settings.name}")
    error = info.get("error")
    if error is not None:
        text = error.get("description", "no reason given")
        if error.get("code") == 503 or "not enabled" in text:
            raise StoreMismatch(f"JetStream is not enabled on {connection.url} ({text}): start it with `-js`")
        raise StoreUnavailable(f"stream {settings.name!r} cannot be opened: {text}")
    check_settings(settings, info["config"])
    return info
