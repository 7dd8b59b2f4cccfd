"""Large bodies in a NATS object store, by content hash: in chunks, each body once, readable with `nats object get`.

The library's own object store takes eight seconds to read 60 MB, keeps a single replica, and hangs when the connection
is lost. Here a body goes out through the window of acknowledgements and comes back by batched direct gets.
"""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64encode
from datetime import UTC, datetime

import msgspec

from journals._attempts import Attempts
from journals._errors import FenceRefused, Unacknowledged
from journals._ids import random_id
from journals._jetstream._connection import Connection
from journals._jetstream._direct import last_by_subject, read_subject
from journals._jetstream._publisher import FENCE, Publisher
from journals._jetstream._settings import StreamSettings
from journals._jetstream._streams import Stream, open_stream

_CHUNK = 128 * 1024
_CHUNKS_AT_ONCE = 32


class _Options(msgspec.Struct):
    max_chunk_size: int = _CHUNK


class _Info(msgspec.Struct, omit_defaults=True):
    """What the newest message of an object's meta subject holds, as all clients of NATS write it."""

    name: str
    bucket: str
    nuid: str
    size: int
    chunks: int
    mtime: str = ""
    digest: str = ""
    deleted: bool = False
    options: _Options | None = None


class Blobs:
    """The object store of a coven, made at the first large body."""

    def __init__(self, connection: Connection, publisher: Publisher, coven: str, replicas: int) -> None:
        self._connection, self._publisher = connection, publisher
        self._bucket = f"{coven}-blobs"
        self._prefix = f"$O.{self._bucket}."
        subjects = [f"{self._prefix}C.>", f"{self._prefix}M.>"]
        self._settings = StreamSettings(name=f"OBJ_{self._bucket}", subjects=subjects, num_replicas=replicas)
        self._stream: Stream | None = None

    def __repr__(self) -> str:
        return f"<Blobs {self._bucket} at {self._connection.url}>"

    async def put(self, digest: str, body: bytes) -> None:
        """Store a body under its SHA-256; does nothing if it is there. Raises `StoreFull`, `StoreUnavailable`."""
        attempts = Attempts(self._connection.patience)
        while True:
            info, newest = await self._find(await self._opened(), digest)
            if info is not None:
                return
            attempts.begin()
            try:
                await self._write(digest, body, newest)
            except (FenceRefused, Unacknowledged) as error:  # somebody else was faster, or nobody knows: look again
                await attempts.failed(error)
                continue
            return

    async def get(self, digest: str) -> bytes | None:
        """The body of a digest, or None. Raises `StoreUnavailable`."""
        stream = await self._opened()
        info, _ = await self._find(stream, digest)
        if info is None:
            return None
        chunks = read_subject(stream, f"C.{info.nuid}", 0, None)
        body = b"".join([stored.body async for group in chunks for stored in group])
        return body if len(body) == info.size else None

    async def _opened(self) -> Stream:
        if self._stream is None:
            self._stream = await open_stream(self._connection, self._settings, self._prefix)
        return self._stream

    async def _find(self, stream: Stream, digest: str) -> tuple[_Info | None, int]:
        """What is known of a body, and the position of what says so."""
        newest = await last_by_subject(stream, _meta_subject(digest))
        if newest is None:
            return None, 0
        try:
            info = msgspec.json.decode(newest.body, type=_Info)
        except msgspec.MsgspecError:
            return None, newest.position
        return None if info.deleted else info, newest.position

    async def _write(self, digest: str, body: bytes, newest: int) -> None:
        nuid = random_id()
        size = min(_CHUNK, self._connection.client.max_payload // 2)
        chunks = [body[start : start + size] for start in range(0, len(body), size)]
        for start in range(0, len(chunks), _CHUNKS_AT_ONCE):  # in between others get their turn on the connection
            some = chunks[start : start + _CHUNKS_AT_ONCE]
            await asyncio.gather(*[self._publisher.publish(f"{self._prefix}C.{nuid}", {}, one) for one in some])
        info = _Info(
            name=digest,
            bucket=self._bucket,
            nuid=nuid,
            size=len(body),
            chunks=len(chunks),
            mtime=datetime.now(UTC).isoformat(),
            digest=f"SHA-256={urlsafe_b64encode(bytes.fromhex(digest)).decode()}",
            options=_Options(size),
        )
        meta = f"{self._prefix}{_meta_subject(digest)}"
        await self._publisher.publish(meta, {FENCE: str(newest)}, msgspec.json.encode(info))


def _meta_subject(digest: str) -> str:
    return f"M.{urlsafe_b64encode(digest.encode()).decode()}"
