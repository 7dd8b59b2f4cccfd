"""The greeting that a NATS server sends to whoever connects, before any credentials."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import msgspec

from journals._errors import StoreUnavailable

MINIMUM_VERSION = (2, 14)
RECOMMENDED_VERSION = (2, 15)
_DEFAULT_PORT = 4222


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What the server says about itself. `server_id` is drawn anew at each start of the server."""

    server_id: str
    version: str
    jetstream: bool = False
    auth_required: bool = False
    max_payload: int = 0


def parse_version(text: str) -> tuple[int, ...]:
    """The numbers of a version such as `2.15.1`, `v2.15.1` or `2.15.0-RC.1` (without what follows the dash)."""
    plain = text.strip().removeprefix("v").partition("-")[0]
    return tuple(int(part) if part.isdigit() else 0 for part in plain.split("."))


async def read_info(url: str, timeout: float = 2.0) -> ServerInfo:
    """The greeting of the server at this address.

    `timeout` is in seconds. Raises `StoreUnavailable` when nobody answers there, or something that is not NATS.
    """
    parts = urlsplit(url if "://" in url else f"nats://{url}")
    host, port = parts.hostname or "127.0.0.1", parts.port or _DEFAULT_PORT
    where = f"{host}:{port}"
    try:
        async with asyncio.timeout(timeout):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                line = await reader.readline()
            finally:
                writer.close()
    except TimeoutError:
        raise StoreUnavailable(
            f"{where} does not answer within {timeout:g} s; is a NATS server running there?"
        ) from None
    except (OSError, ValueError) as error:
        raise StoreUnavailable(
            f"nothing can be reached at {where} ({error}); is a NATS server running there?"
        ) from None
    try:
        if not line.startswith(b"INFO "):
            raise msgspec.DecodeError
        return msgspec.json.decode(line[5:], type=ServerInfo)
    except msgspec.DecodeError:
        raise StoreUnavailable(f"what listens on {where} is not a NATS server; check the address") from None
