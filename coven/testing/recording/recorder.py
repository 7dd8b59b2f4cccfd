"""Records what crystals and their providers say to each other, or answers from what was recorded."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from coven.testing.recording.cassette import Answered, Asked, Cassette, Exchange, body_of, load, save
from coven.testing.recording.matching import Normalise, same, told
from coven.testing.recording.scrubbing import Scrubber, credentials, in_query, keys_of
from leaves.crystals._wire import NotLetOut, Onward, put_between, take_away

if TYPE_CHECKING:
    import httpx2

VARIABLE: Final = "COVEN_RECORD"
_NO_KEY: Final = "replayed-without-a-key"


class CassetteMiss(NotLetOut):
    """A request was made that the cassette does not answer. Nothing was sent."""


class CassetteMissing(FileNotFoundError):
    """There is no cassette to answer from."""


def recording_wanted() -> bool:
    """Whether `COVEN_RECORD=1` stands in the environment: cassettes are then recorded anew."""
    return os.environ.get(VARIABLE, "0") not in ("", "0")


class recorded:
    """For the length of its `with` block, crystals are answered from this file; or, recording, the file is written.

    Answering needs no key and no network, and a request that differs from all recorded ones raises `CassetteMiss`. Each
    exchange answers once. `record` is taken from `COVEN_RECORD` unless it is given; a recording is kept only if the
    block ends well. `scrub` are texts that must not stand in the file, besides keys and secrets of the environment.
    `normalise` is a function of a request's JSON, for what differs from run to run, such as a date.

    Raises `CassetteMissing` where there is no file, `ValueError` for one that is no cassette.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        record: bool | None = None,
        scrub: Iterable[str] = (),
        normalise: Normalise | None = None,
    ) -> None:
        self.path, self._normalise = Path(path), normalise
        self.reaches = recording_wanted() if record is None else record
        self.exchanges: list[Exchange] = []
        self._scrub, self._scrubber = tuple(scrub), Scrubber({})
        self._under_way: list[_Recording] = []
        self._keys: set[str] = set()
        self._used: set[int] = set()
        self._missed: CassetteMiss | None = None

    def __repr__(self) -> str:
        doing = "recording" if self.reaches else f"{self.left} of {len(self.exchanges)} left"
        return f"<recorded {self.path}: {doing}>"

    @property
    def left(self) -> int:
        """How many exchanges nobody has asked for yet."""
        return 0 if self.reaches else len(self.exchanges) - len(self._used)

    def __enter__(self) -> recorded:
        self._scrubber = Scrubber(os.environ, self._scrub)
        self._lent: list[str] = []
        if not self.reaches:
            self._open()
        put_between(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        take_away(self)
        for name in self._lent:
            os.environ.pop(name, None)
        if error is not None:
            return
        if self._missed is not None:
            raise self._missed  # somebody has swallowed it
        if self.reaches:
            self.exchanges = [each.exchange() for each in self._under_way]
            save(Cassette(keys=tuple(sorted(self._keys)), exchanges=tuple(self.exchanges)), self.path)

    async def send(self, request: httpx2.Request, onward: Onward, *, stream: bool) -> httpx2.Response:
        """See `leaves.crystals._wire.Between`."""
        response = await self._record(request, onward) if self.reaches else self._replay(request)
        if not stream:
            await response.aread()
        return response

    def _open(self) -> None:
        try:
            cassette = load(self.path)
        except FileNotFoundError as error:
            raise CassetteMissing(
                f"there is no cassette at {self.path}: run this with {VARIABLE}=1, and with the keys, to record it"
            ) from error
        self.exchanges, self._used, self._missed = list(cassette.exchanges), set(), None
        self._lent = [name for name in cassette.keys if not os.environ.get(name)]
        os.environ.update(dict.fromkeys(self._lent, _NO_KEY))

    def _replay(self, request: httpx2.Request) -> httpx2.Response:
        asked = self._asked(request)
        for number, exchange in enumerate(self.exchanges):
            if number not in self._used and same(exchange.request, asked, self._normalise):
                self._used.add(number)
                return _response(exchange.response, request)
        reason = told(asked, self.exchanges, self._used, self._normalise)
        self._missed = CassetteMiss(f"{self.path}: {reason}\nIf the new request is right, record it: {VARIABLE}=1")
        raise self._missed

    async def _record(self, request: httpx2.Request, onward: Onward) -> httpx2.Response:
        import httpx2

        request.headers["accept-encoding"] = "identity"
        carried = {name.lower(): value for name, value in request.headers.items()}
        self._scrubber.add([*credentials(carried), *in_query(request.url.query.decode())])
        self._keys.update(keys_of(carried, os.environ))
        response = await onward()
        recording = _Recording(self._asked(request), response, self._scrubber)
        self._under_way.append(recording)
        headers = [(n, v) for n, v in response.headers.multi_items() if n.lower() not in _OF_THE_WIRE]
        if response.is_closed:
            return httpx2.Response(
                response.status_code, headers=headers, content=recording.whole(response.content), request=request
            )
        return httpx2.Response(
            response.status_code, headers=headers, stream=_stream(recording.pieces(), response.aclose), request=request
        )

    def _asked(self, request: httpx2.Request) -> Asked:
        scrub, url, headers = self._scrubber, request.url, dict(request.headers)
        return Asked(
            method=request.method,
            host=url.netloc.decode(),
            target=scrub.target(url.path, url.query.decode()),
            headers=scrub.headers(headers),
            body=scrub.body(body_of(request.content, headers)),
        )


class _Recording:
    """An answer that is being recorded while it is read."""

    def __init__(self, asked: Asked, response: httpx2.Response, scrubber: Scrubber) -> None:
        self._asked, self._response, self._scrubber = asked, response, scrubber
        self._raw = bytearray()
        self._ended = False

    def whole(self, content: bytes) -> bytes:
        """The whole body, which came at once."""
        self._raw, self._ended = bytearray(content), True
        return content

    async def pieces(self) -> AsyncGenerator[bytes]:
        """The body as it comes."""
        async for piece in self._response.aiter_bytes():
            self._raw += piece
            yield piece
        self._ended = True

    def exchange(self) -> Exchange:
        """What is written down."""
        headers = dict(self._response.headers)
        body = self._scrubber.body(body_of(bytes(self._raw), headers))
        return Exchange(
            self._asked,
            Answered(
                status=self._response.status_code,
                headers=self._scrubber.headers(headers),
                body=body,
                broke=not self._ended,
            ),
        )


_EVENT = re.compile(rb".+?(?:\n\n|\Z)", re.DOTALL)
_OF_THE_WIRE = ("content-encoding", "content-length", "transfer-encoding")


def _response(answered: Answered, request: httpx2.Request) -> httpx2.Response:
    import httpx2

    return httpx2.Response(
        answered.status, headers=answered.headers, stream=_stream(_events(answered), None), request=request
    )


async def _events(answered: Answered) -> AsyncGenerator[bytes]:
    """The body, event by event where it is a stream of them."""
    import httpx2

    for event in _EVENT.findall(answered.body.raw):
        yield event
        await asyncio.sleep(0)
    if answered.broke:
        raise httpx2.RemoteProtocolError("the connection broke here when it was recorded")


def _stream(pieces: AsyncGenerator[bytes], close: Any) -> Any:
    import httpx2

    class Stream(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncGenerator[bytes]:
            async for piece in pieces:
                yield piece

        async def aclose(self) -> None:
            await pieces.aclose()
            if close is not None:
                await close()

    return Stream()
