"""A connection that asks one thing at a time, and hears at once when it may not."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import msgspec
import nats.errors
from nats.aio.client import Client

from journals._errors import StoreRefused, StoreUnavailable
from journals._urls import without_credentials

_ANSWER_TIMEOUT = 2.0
_DENIED = "permissions violation"


class NoAnswer(Exception):
    """A question that got none; the message says why."""


class Probe:
    """A client for the doctor: no reconnecting, no retrying. An async context manager."""

    def __init__(self, client: Client, denied: asyncio.Queue[str]) -> None:
        self.client, self._denied = client, denied

    def __repr__(self) -> str:
        return f"<Probe {'connected' if self.client.is_connected else 'not connected'}>"

    @classmethod
    async def open(cls, url: str, *, token: str | None, credentials: str | None) -> Probe:
        """Connect, or know at once that it is not possible. Raises `StoreUnavailable` or `StoreRefused`."""
        denied: asyncio.Queue[str] = asyncio.Queue()
        heard: list[Exception] = []

        async def hear(error: Exception) -> None:
            heard.append(error)
            if _DENIED in str(error).lower():
                denied.put_nowait(str(error).removeprefix("nats: "))

        options: dict[str, Any] = {"token": token} if token else {}
        if credentials:
            options["user_credentials"] = credentials
        client = Client()
        connect: Any = client.connect  # its annotations are incomplete
        try:
            await connect(
                url,
                name="coven doctor",
                allow_reconnect=False,
                max_reconnect_attempts=1,  # to be tried once more; 0 would be for ever
                reconnect_time_wait=0,
                connect_timeout=_ANSWER_TIMEOUT,
                error_cb=hear,
                **options,
            )
        except (nats.errors.Error, OSError, TimeoutError) as error:
            raise _explained(without_credentials(url), [*heard, error]) from None
        return cls(client, denied)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.client.is_closed:
            await self.client.close()

    async def ask(
        self, subject: str, body: bytes = b"", headers: Mapping[str, str] | None = None, *, own_inbox: bool = False
    ) -> bytes:
        """The body of the answer. Raises `NoAnswer`: denied, nobody there, or silence for two seconds.

        `own_inbox` is for answers under a subject of their own, as a consumer's messages have.
        """
        given = dict(headers) if headers else None
        asking = asyncio.ensure_future(
            self.client.request(subject, body, timeout=_ANSWER_TIMEOUT, headers=given, old_style=own_inbox)
        )
        hearing = asyncio.ensure_future(self._denied.get())
        try:
            await asyncio.wait({asking, hearing}, return_when=asyncio.FIRST_COMPLETED)
            if hearing.done():
                raise NoAnswer(hearing.result())
            return (await asking).data
        except nats.errors.NoRespondersError:
            raise NoAnswer(f"nobody answers {subject}") from None
        except (nats.errors.Error, TimeoutError, OSError) as error:
            raise NoAnswer(f"{subject} got no answer ({str(error) or type(error).__name__})") from None
        finally:
            asking.cancel()
            hearing.cancel()

    async def api(self, operation: str, request: object = None) -> dict[str, Any]:
        """The answer of the JetStream API, an `error` included. Raises `NoAnswer`."""
        body = b"" if request is None else msgspec.json.encode(request)
        return await self.ask_json(f"$JS.API.{operation}", body)

    async def ask_json(
        self, subject: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """The answer as a mapping; empty when it has no body. Raises `NoAnswer`."""
        answer = await self.ask(subject, body, headers)
        try:
            return msgspec.json.decode(answer, type=dict[str, Any]) if answer else {}
        except msgspec.DecodeError:
            raise NoAnswer(f"{subject} got an answer that is not JSON") from None


def _explained(url: str, errors: list[Exception]) -> StoreUnavailable | StoreRefused:
    said = [str(error).removeprefix("nats: ") or type(error).__name__ for error in errors]
    for reason in said:
        if "authorization" in reason.lower() or "authentication" in reason.lower():
            return StoreRefused(f"the NATS server at {url} refuses these credentials ({reason})")
    return StoreUnavailable(f"no NATS server answers at {url} ({said[0]})")
