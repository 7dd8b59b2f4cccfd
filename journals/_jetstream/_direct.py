"""Reading one literal subject by batched direct gets: no consumer to make, one request for up to 500 messages.

A replica may answer that lags behind. The leader is asked first how far the subject goes, and an answer that ends
before that is asked again from where it ended.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Any

import msgspec
import nats.errors

from journals._errors import StoreUnavailable
from journals._jetstream._client import Delivery, parse_headers
from journals._jetstream._connection import Connection
from journals._log import Stored

_BATCH = 500
_TIMEOUT = 10.0
_LAG_WAIT = 0.01
_NO_MESSAGE = 10037


async def last_by_subject(connection: Connection, stream: str, prefix: str, subject: str) -> Stored | None:
    """The newest message of a literal subject, as the stream's leader knows it."""
    return await _get(connection, stream, prefix, {"last_by_subj": prefix + subject})


async def by_position(connection: Connection, stream: str, prefix: str, position: int) -> Stored | None:
    """The message at a position, as the stream's leader knows it."""
    return await _get(connection, stream, prefix, {"seq": position})


async def last_position(connection: Connection, stream: str) -> int:
    """The position of the newest message of the stream; 0 when it is empty."""
    info = await connection.api(f"STREAM.INFO.{stream}")
    if "error" in info:
        raise StoreUnavailable(f"stream {stream!r} is gone: {info['error'].get('description')}")
    return info["state"]["last_seq"]


async def _get(connection: Connection, stream: str, prefix: str, query: dict[str, Any]) -> Stored | None:
    reply = await connection.api(f"STREAM.MSG.GET.{stream}", query)
    error = reply.get("error")
    if error is not None:
        if error.get("err_code") == _NO_MESSAGE:
            return None
        raise StoreUnavailable(f"stream {stream!r} cannot be read: {error.get('description')}")
    found = reply["message"]
    return Stored(
        position=found["seq"],
        subject=found["subject"][len(prefix) :],
        headers=parse_headers(b64decode(found.get("hdrs", ""))),
        body=b64decode(found.get("data", "")),
        time=datetime.fromisoformat(found["time"]).timestamp(),
    )


async def read_subject(
    connection: Connection, stream: str, prefix: str, subject: str, after: int, before: int | None
) -> AsyncGenerator[list[Stored]]:
    """The messages of a literal subject between two positions, both exclusive, up to the newest at this moment."""
    newest = await last_by_subject(connection, stream, prefix, subject)
    if newest is None or newest.position <= after:
        return
    upto = newest.position if before is None else min(newest.position, before - 1)
    while after < upto:
        group = await _batch(connection, stream, prefix, subject, after + 1)
        if not group:
            await asyncio.sleep(_LAG_WAIT)  # the replica that answered lags behind its leader
            continue
        wanted = [stored for stored in group if stored.position <= upto]
        if wanted:
            yield wanted
        if len(wanted) < len(group):
            return
        after = group[-1].position


async def _batch(connection: Connection, stream: str, prefix: str, subject: str, start: int) -> list[Stored]:
    request = msgspec.json.encode({"seq": start, "next_by_subj": prefix + subject, "batch": _BATCH})
    client = connection.client
    finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    group: list[Stored] = []

    def receive(delivery: Delivery) -> None:
        headers = parse_headers(delivery.headers)
        if "Status" in headers:
            if not finished.done():
                finished.set_result(None)
            return
        group.append(
            Stored(
                position=int(headers["Nats-Sequence"]),
                subject=headers["Nats-Subject"][len(prefix) :],
                headers=headers,
                body=delivery.body,
                time=datetime.fromisoformat(headers["Nats-Time-Stamp"]).timestamp(),
            )
        )

    await connection.ready()
    inbox = client.new_inbox()
    try:
        subscription = await client.listen(inbox, receive)
        try:
            await client.publish(f"$JS.API.DIRECT.GET.{stream}", request, inbox)
            async with asyncio.timeout(_TIMEOUT):
                await finished
        finally:
            await client.forget(subscription)
    except (TimeoutError, nats.errors.Error, OSError):
        return []  # asked again by the caller, who waits for the connection
    return group
