"""Large bodies in a NATS object store, by content hash: in chunks, each body once, readable with `nats object get`.

The library's own store reads eight seconds at 64 MB, keeps no more than one replica, and may hang when a connection is
lost; here a body is written through the window of acknowledgements and read by batched direct gets.
"""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64encode
from collections import deque
from datetime import UTC, datetime
from typing import Any

import msgspec

from journals._errors import FenceRefused, Unacknowledged
from journals._ids import random_id
from journals._jetstream._connection import Connection
from journals._jetstream._direct import last_by_subject, read_subject
from journals._jetstream._publisher import FENCE, Publisher
from journals._jetstream._streams import NOT_FOUND, check_answer

_CHUNK = 128 * 1024
_CHUNKS_UNDER_WAY = 32


class _Info(msgspec.Struct):
    """What an object's meta message holds, as all NATS clients write it."""

    name: str
    bucket: str
    nuid: str
    size: int
    chunks: int
    mtime: str = ""
    digest: str = ""
    options: dict[str, Any] = {}


class Blobs:
    """The object store of one coven; made when the first large body is written."""

    def __init__(self, connection: Connection, publisher: Publisher, coven: str, replicas: int) -> None:
        self._connection, self._publisher, self._replicas = connection, publisher, replicas
        self._bucket = f"{coven}-blobs"
        self._stream, self._prefix = f"OBJ_{self._bucket}", f"$O.{self._bucket}."
        self._made = False

    def __repr__(self) -> str:
        return f"<Blobs {self._bucket} at {self._connection.url}>"
