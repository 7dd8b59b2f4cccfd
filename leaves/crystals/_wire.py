"""How requests leave for the providers: through clients of which a test may take the network's place."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    import ssl

    import httpx2

Made = TypeVar("Made")
Onward = Callable[[], Awaitable["httpx2.Response"]]


class NotLetOut(AssertionError):
    """Raised by what stands between for a request that must not go out. It is a mistake, and no failure to retry."""


class Between(Protocol):
    """Something that stands between the crystals and their providers."""

    @property
    def reaches(self) -> bool:
        """Whether requests go on to the providers."""
        ...

    async def send(self, request: httpx2.Request, onward: Onward, *, stream: bool) -> httpx2.Response:
        """Answer the request, or have `onward` send it; a `stream` is not read yet. Raises `NotLetOut`."""
        ...


_between: list[Between] = []


def put_between(between: Between) -> None:
    """From now on it answers for the providers; whoever was there before waits until `take_away`."""
    _between.append(between)


def take_away(between: Between) -> None:
    """It answers no more."""
    _between.remove(between)


def reaches() -> bool:
    """Whether a request that is made now goes on to its provider."""
    return not _between or _between[-1].reaches


def not_let_out(error: BaseException) -> NotLetOut | None:
    """What an error comes from, if that is a request that was not let out: some SDKs call that a lost connection."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, NotLetOut):
        cause = cause.__cause__
    return cause


def connect(sdk: Any, client: Callable[..., Made], *, api_key: str, base_url: str | None, timeout_s: float) -> Made:
    """A client of an SDK of the OpenAI family, whose module is `sdk`. It retries nothing: that is the loop's."""
    waits = timeout(timeout_s)
    connection = make_client(sdk.DefaultAsyncHttpxClient, timeout=waits)
    return client(api_key=api_key, base_url=base_url, timeout=waits, max_retries=0, http_client=connection)


def timeout(seconds: float) -> httpx2.Timeout:
    """So many seconds for each piece of an answer, and few to be connected."""
    import httpx2

    return httpx2.Timeout(seconds, connect=min(10.0, seconds))


def make_client(base: type[httpx2.AsyncClient], **options: Any) -> httpx2.AsyncClient:
    """A client of this class, for an SDK. What stands between is looked for at each request."""
    return _passing(base)(verify=certificates(), **options)


@cache
def certificates() -> ssl.SSLContext:
    """Whom all crystals of this process trust: reading the system's certificates takes a fiftieth of a second."""
    import httpx2

    return httpx2.create_ssl_context()


@cache
def _passing(base: Any) -> Any:
    send: Any = base.send

    class Passing(base):
        async def send(self, request: Any, *, stream: bool = False, **more: Any) -> Any:
            def onward() -> Any:
                return send(self, request, stream=stream, **more)

            return await (_between[-1].send(request, onward, stream=stream) if _between else onward())

        def __del__(self) -> None:  # as the clients that SDKs make for themselves: nobody need close a crystal
            if not self.is_closed:
                with suppress(RuntimeError):
                    asyncio.get_running_loop().create_task(self.aclose())

    return Passing
