"""A stream: made if it is new, compared with what it must be if it is not, and known again."""

from __future__ import annotations

from typing import Any

import msgspec

from journals._errors import StoreMismatch, StoreUnavailable
from journals._jetstream._connection import Connection
from journals._jetstream._settings import StreamSettings, check_settings

_IN_USE, _NOT_FOUND = 10058, 10059


class Stream:
    """A stream that was opened: its name, what its subjects begin with, and when it was created."""

    def __init__(self, connection: Connection, prefix: str, info: dict[str, Any]) -> None:
        self.connection, self.prefix = connection, prefix
        self.name: str = info["config"]["name"]
        self.created: str = info["created"]
        self.replicated = info["config"]["num_replicas"] > 1

    def __repr__(self) -> str:
        return f"<Stream {self.name} of {self.created}>"

    async def state(self) -> dict[str, Any]:
        """Where it begins and ends, as its leader knows it.

        Raises `StoreUnavailable` when it is gone, and `StoreMismatch` when another one has taken its place.
        """
        info = await self.connection.api(f"STREAM.INFO.{self.name}")
        if "error" in info:
            raise StoreUnavailable(f"stream {self.name!r} cannot be read: {info['error'].get('description')}")
        if info["created"] != self.created:
            raise StoreMismatch(
                f"stream {self.name!r} was deleted and made anew while this process was using it; positions begin "
                "anew with it: restart this process"
            )
        self.replicated = info["config"]["num_replicas"] > 1
        return info["state"]


async def open_stream(connection: Connection, settings: StreamSettings, prefix: str) -> Stream:
    """The stream, made if it is new. Raises `StoreMismatch`, `StoreUnavailable`."""
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
    return Stream(connection, prefix, info)
