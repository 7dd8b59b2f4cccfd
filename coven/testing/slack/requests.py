"""What an app sends, as far as Slack takes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from aiohttp import web

_SECTION, _BUTTONS, _LABEL = 3_000, 25, 75

T = TypeVar("T")


class Refused(Exception):
    """The request is answered with this error; one of the scopes names the one that is `needed`."""

    def __init__(self, code: str, *, needed: str | None = None) -> None:
        super().__init__(code)
        self.needed = needed


async def read(request: web.Request) -> dict[str, Any]:
    """What a request gives, wherever it stands."""
    given: dict[str, Any] = dict(request.query)
    if request.content_type == "application/json":
        given |= await request.json()
    elif request.method == "POST":
        given |= {name: value for name, value in (await request.post()).items() if isinstance(value, str)}
    return given


def token_of(request: web.Request, given: dict[str, Any]) -> str:
    """The token of a request, which stands in its header or among what it gives."""
    header = request.headers.get("Authorization", "")
    return str(given.get("token") or header.removeprefix("Bearer "))


def blocks_of(given: dict[str, Any]) -> list[dict[str, Any]]:
    """The blocks of a message, if Slack takes them. Raises `Refused`."""
    blocks: list[dict[str, Any]] = given.get("blocks") or []
    for block in blocks:
        match block:
            case {"type": "section", "text": {"type": "plain_text" | "mrkdwn", "text": str(text)}}:
                good = 0 < len(text) <= _SECTION
            case {"type": "actions", "elements": [*elements]}:
                labels = [str(element["text"]["text"]) for element in elements]
                ids = {str(element["action_id"]) for element in elements}
                good = 0 < len(labels) <= _BUTTONS and len(ids) == len(labels)
                good = good and all(0 < len(label) <= _LABEL for label in labels)
            case {"type": "context", "elements": [{"type": "mrkdwn", "text": str(text)}]}:
                good = 0 < len(text) <= _SECTION
            case _:
                good = False
        if not good:
            raise Refused("invalid_blocks")
    return blocks


def metadata_of(given: dict[str, Any]) -> dict[str, Any] | None:
    """The metadata of a message, if Slack takes it. Raises `Refused`."""
    metadata: Any = given.get("metadata")
    if metadata is None:
        return None
    if not isinstance(metadata.get("event_type"), str) or not isinstance(metadata.get("event_payload"), dict):
        raise Refused("invalid_metadata_format")
    return metadata


def page_of(found: Sequence[T], given: dict[str, Any]) -> tuple[Sequence[T], dict[str, Any]]:
    """What a request gets of what is there, and where the next one goes on."""
    start, limit = int(str(given.get("cursor") or "0")), int(given.get("limit") or 100)
    more = len(found) > start + limit
    about = {"has_more": more, "response_metadata": {"next_cursor": str(start + limit) if more else ""}}
    return found[start : start + limit], about
