"""Conversations and messages by the ids that Discord gives channels and messages."""

from __future__ import annotations

from branches.chat import ChatAfferent
from branches.chat.leaf import DeliveryFailed
from branches.chat.sessions import conversation_of

SESSION = "discord:"


def channel_of(session: str) -> int:
    """The channel of a conversation. Raises `DeliveryFailed` for a session that is none of ours."""
    channel = channel_or_none(conversation_of(session))
    if channel is None:
        raise DeliveryFailed(f"{session!r} is no conversation on Discord: these are called {SESSION}<channel id>")
    return channel


def channel_or_none(conversation: str) -> int | None:
    """The channel of a conversation, if it is one of ours."""
    number = conversation.removeprefix(SESSION)
    return int(number) if number != conversation and number.isascii() and number.isdigit() else None


def message_id(asked: ChatAfferent) -> int | None:
    """The message that a prompt came with; None for one that came otherwise."""
    id = asked.message_id or ""
    return int(id) if id.isascii() and id.isdigit() else None
