"""The question of a route that needs an approval: its id, which binds an answer to it, and its text.

Who is asked sees all of what would be written, or its beginning, in characters that can be seen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, NamedTuple, cast

import msgspec

from branches.chat.entries import ChatAnswer
from branches.visible import visible
from covenants.problems import shown
from covenants.routing import Placed, TransformFailed
from journals import Entry, Record, derive_id

SHOWN_CHARS = 2_000
FIRST = "0"
_MARK = "approve"
_SHORT = 12
_POSITION = re.compile("[1-9][0-9]{0,17}")
_ENCODER = msgspec.json.Encoder(order="deterministic")


class Asked(NamedTuple):
    """What the id of a route's question says: which route asks, and the position of the record that it asks about.

    `again` tells questions about one record apart, when it was sent again; it is `FIRST` for the first of them.
    """

    route: str
    position: int
    again: str


def asked_by(id: str) -> Asked | None:
    """What the id of a question says; None where no route has asked it."""
    match id.split("."):
        case [mark, route, position, again, _] if mark == _MARK and _POSITION.fullmatch(position):
            return Asked(route, int(position), again)
        case _:
            return None


def is_for_a_route(record: Record[Any]) -> bool:
    """Whether this answer is one to a route's question: then nobody else is meant by it."""
    return isinstance(record.entry, ChatAnswer) and asked_by(record.entry.correlation_id) is not None


def released_name(name: str) -> str:
    """The name of the half that takes the answers to what a route of this name asks."""
    return f"{name} (approved)"


def route_key(route: Placed) -> str:
    """What names a route in the ids of its questions."""
    return derive_id(_MARK, route.source_instance, route.name)[:_SHORT]


def again_by(letter: str) -> str:
    """What tells a question apart that is asked because the dead letter of this id was sent again."""
    return letter[:_SHORT]


def question_id(route: Placed, position: int, entries: Sequence[Entry], again: str) -> str:
    """The id of the question whether the route may write these very entries, at most 90 characters.

    Raises `TransformFailed` for what cannot be stored.
    """
    try:
        content = [_ENCODER.encode(entry).decode() for entry in entries]
    except (TypeError, ValueError, RecursionError) as error:
        raise TransformFailed("not_storable", f"what it makes cannot be stored: {shown(error, 300)}") from None
    digest = derive_id(_MARK, again, route.target_instance or "", *content)
    return ".".join((_MARK, route_key(route), str(position), again, digest))


def question_text(instance: str, entries: Sequence[Entry], session: str | None = None) -> str:
    """The question whether these entries may go to this instance. `session` is theirs, where people cannot know it.

    Raises `TransformFailed` for what cannot be shown.
    """
    try:
        content = ", ".join(f"{entry.kind()} {_fields(entry)}" for entry in entries)
    except RecursionError:
        raise TransformFailed("not_storable", "what it makes is nested too deeply to be shown") from None
    where = instance
    if session is not None:
        where = f"{instance} in {visible(json.dumps(session, ensure_ascii=False), SHOWN_CHARS)}"
    return f"May I send to {where}: {visible(content, SHOWN_CHARS)}?"


def _fields(entry: Entry) -> str:
    """The fields of an entry as JSON."""
    plain = cast("dict[str, Any]", _plain(msgspec.to_builtins(entry, builtin_types=(bytes,))))
    plain.pop("kind", None)
    return _ENCODER.encode(plain).decode()


def _plain(value: Any) -> Any:
    """The same with bytes told by their number and digest: nobody can read them."""
    if isinstance(value, bytes):
        return f"{len(value):,} bytes, sha256 {sha256(value).hexdigest()}"
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast("Sequence[Any]", value)]
    return value
