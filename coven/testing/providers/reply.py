"""What the loopback provider answers to one request."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Literal

import msgspec


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """One answer. `calls` are names, as they are on the wire, with arguments as JSON text.

    `finish` says why it ends: `refusal` is the model's own, `blocked` that of a filter, `length` the limit of tokens,
    and `broken_off` the service's for any other reason.
    With a `status` it is an error, and with `error_within` one that comes in the middle of a stream. `breaks_after`
    closes the connection behind so many bytes of the body; with `half_closes` the server sends no more, and listens
    until the asker closes its side. Nothing is sent before `hold` is set. `given_up` is set when the asker closes the
    connection in the meantime.
    """

    text: str | None = None
    calls: tuple[tuple[str, str], ...] = ()
    thinking: str | None = None
    finish: Literal["normal", "refusal", "blocked", "length", "broken_off"] = "normal"
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    status: int = 200
    message: str = ""
    headers: Mapping[str, str] = {}
    error_within: str | None = None
    breaks_after: int | None = None
    half_closes: bool = False
    hold: asyncio.Event | None = None
    given_up: asyncio.Event | None = None


class Refused(Exception):
    """The request is none that the provider would take. `status` is the one that it would answer with."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


def require(condition: object, message: str) -> None:
    """Raise `Refused` unless the condition holds."""
    if not condition:
        raise Refused(message)
