"""The application: each route a few lines from a request to a conversation and back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Any, cast

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from branches.agents.forking import fork
from branches.agents.loom import export_loom, read_loom
from branches.attachment import File
from coven.answers import answer_of
from coven.conversation import Conversation, Ended
from coven.entrance import Entrance
from coven.http.bodies import body_of, idempotency_key, number_of
from coven.http.events import Mark, as_lines, parse_mark, session_events
from coven.http.guard import Guard
from coven.http.messages import (
    Accepted,
    Cancelled,
    CancelRequest,
    CastRequest,
    Forked,
    ForkRequest,
    Health,
    PromptRequest,
    ThreadTold,
)
from coven.http.openapi import openapi_document
from coven.http.troubles import Refused, json_response, refusal, reply, stopping, unknown_session
from journals import Record, derive_id, random_id

ORIGIN = "http"
_SENDER = "http"
_log: Any = structlog.get_logger("coven.http")

Handler = Callable[[Request], Awaitable[Response]]


class Api:
    """The routes over an open coven. A client that leaves cancels nothing: its episode goes on in the journal."""

    def __init__(self, opened: Entrance) -> None:
        self._opened = opened
        self._stopping = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Api over {self._opened!r}>"

    def app(self, token: str | None) -> Guard:
        """The ASGI application, behind its guard."""
        routes = [
            ("POST", "/cast", self.cast),
            ("POST", "/sessions/{session:path}/prompts", self.prompt),
            ("GET", "/sessions/{session:path}/events", self.events),
            ("POST", "/sessions/{session:path}/cancel", self.cancel),
            ("GET", "/sessions/{session:path}/thread", self.thread),
            ("GET", "/sessions/{session:path}/loom", self.loom),
            ("POST", "/sessions/{session:path}/forks", self.fork),
            ("GET", "/health", self.health),
            ("GET", "/openapi.json", self.openapi),
        ]
        app = Starlette(
            routes=[Route(path, _answering(handler), methods=[method]) for method, path, handler in routes],
            exception_handlers={HTTPException: _no_such_route},
        )
        return Guard(app, token)

    def stop(self) -> None:
        """Whoever waits is told to come again, and streams end."""
        self._stopping.set()

    async def cast(self, request: Request) -> Response:
        """One episode; with the key of an earlier one, its answer."""
        key, wanted = idempotency_key(request), await body_of(request, CastRequest)
        id = key or random_id()
        session = f"cast-{derive_id('http', id)}" if wanted.session is None else wanted.session
        conversation = self._opened.conversation(session, _SENDER)
        record = await _send(conversation, wanted, id)
        return await self._answer(conversation, record)

    async def prompt(self, request: Request) -> Response:
        """An intent for a lasting entity."""
        key, wanted = idempotency_key(request), await body_of(request, PromptRequest)
        session: str = request.path_params["session"]
        conversation = self._opened.conversation(session, _SENDER)
        record = await _send(conversation, wanted, key)
        if not wanted.wait:
            return json_response(Accepted(session=session, prompt=record.id, position=record.position), 202)
        return await self._answer(conversation, record)

    async def events(self, request: Request) -> Response:
        """The events of a session as they happen."""
        session = await self._known(request)
        given, after = request.headers.get("last-event-id"), number_of(request, "after")
        mark = parse_mark(given) if given else None if after is None else Mark(after)
        once = request.query_params.get("once", "false") == "true"
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        if request.method == "HEAD":
            return Response(headers=headers, media_type="text/event-stream")
        opened = self._opened
        told = session_events(opened.journal, session, opened.chunks, mark, stopping=self._stopping)
        return StreamingResponse(as_lines(told, once=once), headers=headers, media_type="text/event-stream")

    async def cancel(self, request: Request) -> Response:
        """Nobody wants the answer any more."""
        session = await self._known(request)
        wanted = await body_of(request, CancelRequest, default=CancelRequest())
        await self._opened.conversation(session, _SENDER).cancel(wanted.prompt)
        return json_response(Cancelled(session=session, prompt=wanted.prompt), 202)

    async def thread(self, request: Request) -> Response:
        """The turns of a session from its root."""
        session = await self._known(request)
        loom = await read_loom(self._opened.journal, session)
        found = [thread for thread in loom.threads if thread.session == session]
        told = ThreadTold(
            session=session,
            ending=found[-1].ending if found else "active",
            turns=found[-1].turns if found else (),
        )
        return json_response(told)

    async def loom(self, request: Request) -> Response:
        """Every turn of a session, children's among them, as lines of JSON."""
        session = await self._known(request)
        lines = export_loom(await read_loom(self._opened.journal, session))
        return StreamingResponse(lines, media_type="application/jsonl")

    async def fork(self, request: Request) -> Response:
        """Another session that goes on from a turn of this one."""
        session, wanted = await self._known(request), await body_of(request, ForkRequest)
        name = wanted.session or f"fork-{random_id()}"
        if await self._opened.journal.last(session=name) is not None:
            raise Refused(409, "session_taken", f"there is a session {name!r} already; choose another name")
        await fork(self._opened.journal, session, wanted.turn, name)
        return json_response(Forked(session=name, forked_from=session), 201)

    async def health(self, request: Request) -> Response:
        """Whether it answers."""
        recipe = self._opened.recipe
        return json_response(Health(ok=True, coven=recipe.config.coven, agents=recipe.agents))

    async def openapi(self, request: Request) -> Response:
        """What can be asked here."""
        return json_response(openapi_document(version("coven-bus")))

    async def _answer(self, conversation: Conversation, prompt: Record[Any]) -> Response:
        """The end of the prompt's episode. Raises `Refused` when the server stops before."""
        waits = [asyncio.ensure_future(conversation.ended(prompt)), asyncio.ensure_future(self._stopping.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if not waits[0].done():
                raise stopping()
            return json_response(answer_of(cast("Ended", waits[0].result())))
        finally:
            for each in waits:
                each.cancel()

    async def _known(self, request: Request) -> str:
        """The session of the path. Raises `Refused` where nothing was ever said."""
        session: str = request.path_params["session"]
        if await self._opened.journal.last(session=session) is None:
            raise unknown_session(session)
        return session


async def _send(conversation: Conversation, wanted: CastRequest | PromptRequest, id: str | None) -> Record[Any]:
    """Hand over the intent, with its files."""
    files = (File(each.name, each.media_type, len(each.body), each.body) for each in wanted.attachments)
    return await conversation.send(wanted.intent, id=id, files=tuple(files))


def _answering(handler: Handler) -> Handler:
    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
        except Exception as error:  # noqa: BLE001 - the boundary: an error becomes a status, and is logged where it is ours
            refused = refusal(error)
            if refused is None:
                _log.error("a request failed", path=request.url.path, exc_info=error)
                refused = Refused(500, "failed", f"this server failed ({type(error).__name__}); its log says more")
            return reply(refused)

    return answer


async def _no_such_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.url.path}: {error.detail}; /openapi.json says what there is"
    return reply(Refused(error.status_code, "no_such_route", message, dict(error.headers or {})))
