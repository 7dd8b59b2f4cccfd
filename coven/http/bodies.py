"""Reading what a request brings: bounded, and checked before anything is done."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec
from starlette.requests import Request

from branches.attachment import MESSAGE_BYTES
from coven.http.troubles import Refused

BODY_LIMIT: Final = MESSAGE_BYTES * 4 // 3 + 1024 * 1024  # files come in base64
_KEY_LENGTH: Final = 128
_PATIENCE: Final = 2

T = TypeVar("T")


async def body_of(request: Request, wanted: type[T], *, default: T | None = None) -> T:
    """The body as one of our structs; `default` stands for an empty one.

    Raises `Refused` for another content type (so that no other site's page can send one), for more than `BODY_LIMIT`
    bytes, for what is no JSON, and for what does not fit.
    """
    data = await _read(request)
    if not data and default is not None:
        return default
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise Refused(415, "not_json", "send JSON, with the header Content-Type: application/json")
    try:
        return msgspec.json.decode(data, type=wanted)
    except msgspec.ValidationError as error:
        raise Refused(422, "bad_request", f"{error}; /openapi.json says what belongs there") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(400, "not_json", f"the body is not JSON in UTF-8: {error}") from None


async def _read(request: Request) -> bytes:
    """The body. One that is somewhat too large is read to its end, or its sender would not hear why it is refused."""
    told = request.headers.get("content-length", "")
    if told.isdigit() and int(told) > _PATIENCE * BODY_LIMIT:
        raise _too_large()
    data, size = bytearray(), 0
    async for piece in request.stream():
        size += len(piece)
        if size <= BODY_LIMIT:
            data += piece
        elif size > _PATIENCE * BODY_LIMIT:
            raise _too_large()
    if size > BODY_LIMIT:
        raise _too_large()
    return bytes(data)


def _too_large() -> Refused:
    message = f"a body has at most {BODY_LIMIT} bytes; put what is larger into a file that the entity can read"
    return Refused(413, "too_large", message, {"Connection": "close"})


def idempotency_key(request: Request) -> str | None:
    """The header `Idempotency-Key`, which is the id of the prompt. Raises `Refused` for one that cannot be an id."""
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    if not key or len(key) > _KEY_LENGTH or not all("!" <= character <= "~" for character in key):
        message = f"an Idempotency-Key has 1 to {_KEY_LENGTH} printable ASCII characters and no space"
        raise Refused(400, "bad_key", message)
    return key


def number_of(request: Request, name: str) -> int | None:
    """A query parameter that is a number from 0. Raises `Refused`."""
    given = request.query_params.get(name)
    if given is None:
        return None
    if not given.isdecimal() or len(given) > 18:
        raise Refused(400, "bad_request", f"`{name}` is a position in the journal: a number from 0")
    return int(given)
