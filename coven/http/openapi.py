"""The OpenAPI document, made of the structs that go in and out."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from branches.agents.events import AnyEvent
from coven.answers import Answer
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
    Trouble,
)

_OPENAPI: Final = "3.1.0"
_KEY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "the id of the prompt: a request with a key that was used already is not cast again but answered",
    "schema": {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]+$"},
}
_SESSION: Final = {
    "name": "session",
    "in": "path",
    "required": True,
    "description": "the name of the conversation",
    "schema": {"type": "string", "minLength": 1},
}
_EVENT_PARAMETERS: Final = [
    {
        "name": "Last-Event-ID",
        "in": "header",
        "description": "the id of the last event that was received: go on behind it",
        "schema": {"type": "string", "pattern": "^[0-9]+([.][0-9]+)?$"},
    },
    {
        "name": "after",
        "in": "query",
        "description": "begin behind this position of the Agents journal, 0 being the beginning; without it, with the "
        "episode at work",
        "schema": {"type": "integer", "minimum": 0},
    },
    {
        "name": "once",
        "in": "query",
        "description": "end with the next episode",
        "schema": {"type": "boolean", "default": False},
    },
]
_TYPES: Final = (
    Answer,
    Accepted,
    Cancelled,
    CancelRequest,
    CastRequest,
    Forked,
    ForkRequest,
    Health,
    PromptRequest,
    ThreadTold,
    Trouble,
    AnyEvent,
)


def openapi_document(version: str) -> dict[str, Any]:
    """The document, for a server of this version of Coven."""
    _, components = msgspec.json.schema_components(_TYPES, ref_template="#/components/schemas/{name}")
    events = [name for name in components if name.endswith("Event")]
    components["Event"] = {
        "oneOf": [{"$ref": f"#/components/schemas/{name}"} for name in events],
        "discriminator": {"propertyName": "event"},
    }
    session = [_SESSION]
    return {
        "openapi": _OPENAPI,
        "info": {
            "title": "Coven",
            "version": version,
            "description": "Casts and conversations over HTTP. A client that leaves cancels nothing.",
        },
        "paths": {
            "/cast": {"post": _operation("cast", "One episode", 200, "Answer", body="CastRequest", parameters=[_KEY])},
            "/sessions/{session}/prompts": {
                "parameters": session,
                "post": _operation(
                    "prompt",
                    "An intent for a lasting entity",
                    200,
                    "Answer",
                    body="PromptRequest",
                    parameters=[_KEY],
                    also={"202": _answer("Accepted", "The prompt is recorded, and `wait` was false")},
                ),
            },
            "/sessions/{session}/events": {
                "parameters": session,
                "get": _operation(
                    "events",
                    "What happens, as server-sent events; the data of each is an `Event`",
                    200,
                    "Event",
                    media="text/event-stream",
                    parameters=_EVENT_PARAMETERS,
                ),
            },
            "/sessions/{session}/cancel": {
                "parameters": session,
                "post": _operation(
                    "cancel", "Nobody wants the answer any more", 202, "Cancelled", body="CancelRequest", empty=True
                ),
            },
            "/sessions/{session}/thread": {
                "parameters": session,
                "get": _operation("thread", "The turns of a session from its root", 200, "ThreadTold"),
            },
            "/sessions/{session}/loom": {
                "parameters": session,
                "get": _operation(
                    "loom",
                    "Every turn of a session, children's among them, each a line of JSON",
                    200,
                    "Turn",
                    media="application/jsonl",
                ),
            },
            "/sessions/{session}/forks": {
                "parameters": session,
                "post": _operation(
                    "fork", "Another session that goes on from a turn", 201, "Forked", body="ForkRequest"
                ),
            },
            "/health": {"get": {**_operation("health", "Whether the server answers", 200, "Health"), "security": []}},
            "/openapi.json": {
                "get": {
                    "operationId": "openapi",
                    "summary": "This document",
                    "responses": {"200": {"description": "This document", "content": {"application/json": {}}}},
                }
            },
        },
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"token": []}],
    }


def _operation(
    id: str,
    summary: str,
    status: int,
    gives: str,
    *,
    body: str | None = None,
    empty: bool = False,
    media: str = "application/json",
    parameters: list[dict[str, Any]] | None = None,
    also: dict[str, Any] | None = None,
) -> dict[str, Any]:
    operation: dict[str, Any] = {"operationId": id, "summary": summary}
    if parameters:
        operation["parameters"] = parameters
    if body is not None:
        operation["requestBody"] = {"required": not empty, "content": {"application/json": {"schema": _ref(body)}}}
    operation["responses"] = {
        str(status): _answer(gives, summary, media),
        **(also or {}),
        "default": _answer("Trouble", "Why not, and what to do"),
    }
    return operation


def _answer(gives: str, description: str, media: str = "application/json") -> dict[str, Any]:
    return {"description": description, "content": {media: {"schema": _ref(gives)}}}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}
