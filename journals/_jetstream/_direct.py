"""Reading one literal subject by batched direct gets: no consumer to make, one request for up to 500 messages.

Of a replicated stream a replica may answer that lags behind. There the leader is asked first how far the subject goes,
and an answer that ends before that is asked again from where it ended.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import AsyncGenerator
from datetime import datetime
from sys import maxsize
from typing import Any

import msgspec
import nats.errors

from journals._errors import StoreUnavailable
from journals._jetstream._client import Delivery, parse_headers
from journals._jetstream._streams import Stream
from journals._log import Stored

_BATCH = 500
_MAX_BYTES = 2 * 1024 * 1024
_TIMEOUT = 10.0
_LAG_WAIT = 0.01
_NO_MESSAGE = 10037
_END_OF_BATCH, _NOT_FOUND = "204", "404"
_SEQUENCE = b"\r\nNats-Sequence: "


async def last_by_subject(stream: Stream, subject: str) -> Stored | None:
    """The newest message of a literal subject, as the stream's leader knows it."""
    return await _get(stream, {"last_by_subj": stream.prefix + subject})


async def by_position(stream: Stream, position: int) -> Stored | None:
    """The message at a position, as the stream's leader knows it."""
    return await _get(stream, {"seq": position})


async def _get(stream: Stream, query: dict[str, Any]) -> Stored | None:
    reply = await stream.connection.api(f"STREAM.MSG.GET.{stream.name}", query)
    error = reply.get("error")
    if error is not None:
        if error.get("err_code") == _NO_MESSAGE:
            return None
        raise StoreUnavailable(f"stream {stream.name!r} cannot be read: {error.get('description')}")
    found = reply["message"]
    return Stored(
        position=found["seq"],
        subject=found["subject"][len(stream.prefix) :],
        headers=parse_headers(b64decode(found.get("hdrs", ""))),
        body=b64decode(found.get("data", "")),
        time=datetime.fromisoformat(found["time"]).timestamp(),
    )


async def read_subject(stream: Stream, subject: str, after: int, before: int | None) -> AsyncGenerator[list[Stored]]:
    """The messages of a literal subject between two positions, both exclusive, up to the newest at this moment."""
    upto = maxsize if before is None else before - 1
    if stream.replicated:
        upto = await _reached(stream, subject, upto)
    loop = asyncio.get_running_loop()
    deadline = None
    while after < upto:
        answer = await _batch(stream, subject, after + 1)
        if answer is None:
            if deadline is None:
                deadline = loop.time() + stream.connection.patience
            elif loop.time() > deadline:
                raise StoreUnavailable(
                    f"stream {stream.name!r} does not answer direct gets; is `allow_direct` still on? "
                    "`nats stream info` says so, and `coven doctor` says more"
                )
            continue
        deadline = None
        group, ended = answer
        wanted = [stored for stored in group if stored.position <= upto]
        if wanted:
            yield wanted
            after = wanted[-1].position
        if len(wanted) < len(group) or (ended and not stream.replicated):
            return
        if not group and stream.replicated:  # the replica that answered lags, or a short-lived stream has forgotten it
            await asyncio.sleep(_LAG_WAIT)
            upto = await _reached(stream, subject, upto)


async def _reached(stream: Stream, subject: str, upto: int) -> int:
    """How far the subject goes by now, at most up to a position, as the stream's leader knows it."""
    newest = await last_by_subject(stream, subject)
    return 0 if newest is None else min(upto, newest.position)


async def _batch(stream: Stream, subject: str, start: int) -> tuple[list[Stored], bool] | None:
    """Up to 500 messages, and whether they are the last ones that whoever answered has of the subject.

    None when no answer came: the connection was lost meanwhile, or the server does not serve this stream just now.
    """
    connection = stream.connection
    limits = {"batch": _BATCH, "max_bytes": connection.at_least_one(_MAX_BYTES)}
    request = msgspec.json.encode({"seq": start, "next_by_subj": stream.prefix + subject, **limits})
    await connection.ready()
    try:
        async with connection.few, asyncio.timeout(_TIMEOUT):
            *deliveries, last = await connection.ask(f"$JS.API.DIRECT.GET.{stream.name}", request, _is_end)
    except (TimeoutError, nats.errors.Error, OSError):
        return None
    end = parse_headers(last.headers)
    if end.get("Status") not in (_END_OF_BATCH, _NOT_FOUND):  # nobody serves it, or not now
        await stream.state()  # says so if the stream is gone
        await asyncio.sleep(_LAG_WAIT)
        return None
    cut = len(stream.prefix)
    group = [_stored(parse_headers(each.headers), each.body, cut) for each in deliveries]
    return group, end.get("Status") == _NOT_FOUND or end.get("Nats-Num-Pending") == "0"


def _is_end(delivery: Delivery) -> bool:
    return _SEQUENCE not in delivery.headers


def _stored(headers: dict[str, str], body: bytes, cut: int) -> Stored:
    return Stored(
        position=int(headers["Nats-Sequence"]),
        subject=headers["Nats-Subject"][cut:],
        headers=headers,
        body=body,
        time=datetime.fromisoformat(headers["Nats-Time-Stamp"]).timestamp(),
    )
