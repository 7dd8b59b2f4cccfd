"""What Slack sends: messages, commands and pressed buttons, as typed values with the fields that are read here."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import dropwhile
from typing import Any, NamedTuple

import msgspec

_SUBTYPES = (None, "file_share", "me_message", "thread_broadcast")
_log = logging.getLogger("coven.chat")


class Place(NamedTuple):
    """A conversation: a channel or a direct message, or a thread in one, named by its first message."""

    channel: str
    thread: str | None = None

    @property
    def direct(self) -> bool:
        """Whether it is a direct message with one person."""
        return self.channel.startswith("D")


class SlackFile(msgspec.Struct, frozen=True):
    """An attached file; only one that Slack itself keeps can be read with the bot's token."""

    name: str | None = None
    mimetype: str | None = None
    size: int = 0
    mode: str | None = None
    url_private: str | None = None


class Message(msgspec.Struct, frozen=True):
    """An event `message` or `app_mention`, or a message of a channel's history.

    There, one with which a thread begins names itself in `thread_ts`, and the thread's newest one in `latest_reply`.
    """

    type: str
    channel: str = ""
    ts: str = ""
    user: str | None = None
    text: str | None = None
    subtype: str | None = None
    bot_id: str | None = None
    thread_ts: str | None = None
    parent_user_id: str | None = None
    latest_reply: str | None = None
    files: tuple[SlackFile, ...] | None = None

    @property
    def id(self) -> str:
        """What names it for ever."""
        return f"{self.channel}:{self.ts}"

    @property
    def place(self) -> Place:
        """Where it stands."""
        return Place(self.channel, self.thread_ts if self.thread_ts != self.ts else None)

    @property
    def by_a_person(self) -> bool:
        """Whether a person said it, and not a bot, Slack itself, or an edit of something said before."""
        spoken = (
            self.type in ("message", "app_mention") and self.subtype in _SUBTYPES and bool(self.channel and self.ts)
        )
        return spoken and self.user is not None and self.bot_id is None


def messages(channel: str, told: Iterable[dict[str, Any]]) -> list[Message]:
    """The messages of a channel's history, which does not say of each where it stands, without those we cannot read."""
    found: list[Message] = []
    for message in told:
        try:
            found.append(msgspec.convert({**message, "channel": channel}, Message))
        except msgspec.ValidationError as error:
            _log.warning("Slack has a message in %s that cannot be read: %s", channel, error)
    return found


class Command(msgspec.Struct, frozen=True):
    """A slash command."""

    command: str
    channel_id: str
    user_id: str
    trigger_id: str
    text: str = ""

    @property
    def name(self) -> str:
        """What it asks for: `ask` for `/ask`, and for `/hearth-ask` where another app has the short name."""
        return self.command.removeprefix("/").rpartition("-")[2]


class Button(msgspec.Struct, frozen=True):
    """A button in an interaction."""

    action_id: str = ""
    value: str = ""


class Container(msgspec.Struct, frozen=True):
    """The message that a button stands below."""

    channel_id: str = ""
    message_ts: str = ""
    thread_ts: str | None = None


class User(msgspec.Struct, frozen=True):
    """Who pressed."""

    id: str


class Interaction(msgspec.Struct, frozen=True):
    """Something of ours was used; `block_actions` are buttons."""

    type: str
    user: User
    trigger_id: str = ""
    container: Container = Container()
    message: dict[str, Any] = {}
    actions: tuple[Button, ...] = ()


def behind_a_command(came: Iterable[object]) -> set[str]:
    """The ids of the messages among this that came after the first command or pressed button."""
    commanded = dropwhile(lambda content: not isinstance(content, Command | Interaction), came)
    return {content.id for content in commanded if isinstance(content, Message)}


class Envelope(msgspec.Struct, frozen=True):
    """What comes through Socket Mode. It is sent again until it is acknowledged by its id."""

    type: str
    envelope_id: str = ""
    payload: dict[str, Any] = {}
    reason: str = ""

    def read(self) -> Message | Command | Interaction | None:
        """What is in it; None for what we have no use for. Raises `msgspec.ValidationError`."""
        match self.type:
            case "events_api":
                return msgspec.convert(self.payload.get("event"), Message)
            case "slash_commands":
                return msgspec.convert(self.payload, Command)
            case "interactive" if self.payload.get("type") == "block_actions":
                return msgspec.convert(self.payload, Interaction)
            case _:
                return None
