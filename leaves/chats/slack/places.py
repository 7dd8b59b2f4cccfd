"""Conversations by the ids that Slack gives channels and messages."""

from __future__ import annotations

import re

from branches.chat.leaf import DeliveryFailed
from branches.chat.sessions import conversation_of
from leaves.chats.slack.incoming import Place

SESSION = "slack:"
_PLACE = re.compile(rf"{SESSION}(?P<channel>[A-Z0-9]+)(?::(?P<thread>\d+\.\d+))?")


def session_of(place: Place) -> str:
    """The conversation of a place."""
    return f"{SESSION}{place.channel}" if place.thread is None else f"{SESSION}{place.channel}:{place.thread}"


def place_of(session: str) -> Place:
    """The place of a conversation. Raises `DeliveryFailed` for a session that is none of ours."""
    place = place_or_none(conversation_of(session))
    if place is None:
        raise DeliveryFailed(f"{session!r} is no conversation on Slack: these are called {SESSION}<channel id>")
    return place


def place_or_none(conversation: str) -> Place | None:
    """The place of a conversation, if it is one of ours."""
    found = _PLACE.fullmatch(conversation)
    return Place(found["channel"], found["thread"]) if found is not None else None
