"""Who and what there is: people, channels, messages, each as Discord's interface shows it."""

from __future__ import annotations

import datetime
import time
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

_EPOCH_MS = 1_420_070_400_000


class Kind(IntEnum):
    """What a channel is, by Discord's numbers."""

    TEXT = 0
    DIRECT = 1
    THREAD = 11


@dataclass(frozen=True)
class Person:
    """A user."""

    id: int
    name: str
    bot: bool = False

    def payload(self) -> dict[str, Any]:
        """As the interface shows it."""
        return {
            "id": str(self.id),
            "username": self.name.lower(),
            "global_name": self.name,
            "discriminator": "0",
            "avatar": None,
            "bot": self.bot,
        }


@dataclass(frozen=True)
class Channel:
    """A channel, a thread of one, or a direct message."""

    id: int
    name: str
    kind: Kind = Kind.TEXT
    parent: int | None = None


@dataclass
class Message:
    """A message; `history` is what it said before its edits, `nonce` what the bot gave with it.

    `notifies` are the kinds of mentions in it that count: those that the bot has allowed, all where it said nothing.
    """

    id: int
    channel: Channel
    author: Person
    text: str
    mentions: tuple[Person, ...] = ()
    reply_to: int | None = None
    nonce: str | None = None
    files: list[tuple[str, bytes, str]] = field(default_factory=list[tuple[str, bytes, str]])
    components: list[Any] = field(default_factory=list[Any])
    history: list[str] = field(default_factory=list[str])
    edited_at: float | None = None
    notifies: tuple[str, ...] = ()


class World:
    """One server with its channels, and what was said there."""

    def __init__(self) -> None:
        self._last = 0
        self.bot = Person(self.new_id(), "Coven", bot=True)
        self.guild = self.new_id()
        self.people: dict[str, Person] = {}
        self.channels: dict[int, Channel] = {}
        self.messages: dict[int, Message] = {}
        self._newest: dict[int, int] = {}
        self.general = self.channel("general")

    def __repr__(self) -> str:
        return f"<World {len(self.channels)} channels, {len(self.messages)} messages>"

    def new_id(self) -> int:
        """An id as Discord gives them: they grow, and tell the time."""
        self._last = max(self._last + 1, (int(time.time() * 1000) - _EPOCH_MS) << 22)
        return self._last

    def person(self, name: str, *, bot: bool = False) -> Person:
        """The person of this name, new if it has to be."""
        if name not in self.people:
            self.people[name] = Person(self.new_id(), name, bot)
        return self.people[name]

    def channel(self, name: str, kind: Kind = Kind.TEXT, parent: Channel | None = None) -> Channel:
        """A new channel."""
        made = Channel(self.new_id(), name, kind, parent.id if parent is not None else None)
        self.channels[made.id] = made
        return made

    def add(self, channel: Channel, author: Person, text: str, **more: Any) -> Message:
        """A new message."""
        message = Message(self.new_id(), channel, author, text.strip(), **more)
        self.messages[message.id] = message
        self._newest[channel.id] = message.id
        return message

    def of_bot(self, channel: Channel) -> list[Message]:
        """What the bot says in a channel, in order."""
        return [m for m in self.messages.values() if m.channel == channel and m.author == self.bot]

    def channel_payload(self, channel: Channel) -> dict[str, Any]:
        """A channel as the interface shows it."""
        newest = self._newest.get(channel.id)
        payload: dict[str, Any] = {"id": str(channel.id), "type": int(channel.kind)}
        payload["last_message_id"] = None if newest is None else str(newest)
        if channel.kind is Kind.DIRECT:
            return payload | {"recipients": []}
        payload |= {"guild_id": str(self.guild), "name": channel.name, "position": 0, "permission_overwrites": []}
        if channel.kind is Kind.THREAD:
            moment = _iso(time.time())
            payload |= {
                "parent_id": str(channel.parent),
                "owner_id": str(self.bot.id),
                "message_count": 0,
                "member_count": 0,
                "thread_metadata": {
                    "archived": False,
                    "auto_archive_duration": 60,
                    "archive_timestamp": moment,
                    "locked": False,
                },
            }
        return payload

    def guild_payload(self) -> dict[str, Any]:
        """The server as the interface shows it."""
        channels = [self.channel_payload(c) for c in self.channels.values() if c.kind is Kind.TEXT]
        threads = [self.channel_payload(c) for c in self.channels.values() if c.kind is Kind.THREAD]
        everyone = {"id": str(self.guild), "name": "@everyone", "permissions": "0", "position": 0, "color": 0}
        return {
            "id": str(self.guild),
            "name": "Home",
            "owner_id": "1",
            "member_count": 2,
            "roles": [everyone | {"hoist": False, "managed": False, "mentionable": False, "colors": _COLORS}],
            "channels": channels,
            "threads": threads,
            "members": [],
        }

    def message_payload(self, message: Message, base: str) -> dict[str, Any]:
        """A message as the interface shows it; `base` is where attachments are read."""
        payload: dict[str, Any] = {
            "id": str(message.id),
            "channel_id": str(message.channel.id),
            "author": message.author.payload(),
            "content": message.text,
            "timestamp": _iso(((message.id >> 22) + _EPOCH_MS) / 1000),
            "edited_timestamp": None if message.edited_at is None else _iso(message.edited_at),
            "tts": False,
            "mention_everyone": False,
            "mentions": [person.payload() for person in message.mentions],
            "mention_roles": [],
            "attachments": [
                {
                    "id": str(message.id + number),
                    "filename": name,
                    "size": len(body),
                    "content_type": type,
                    "url": f"{base}/attachments/{message.id}/{number}",
                    "proxy_url": f"{base}/attachments/{message.id}/{number}",
                }
                for number, (name, body, type) in enumerate(message.files)
            ],
            "embeds": [],
            "pinned": False,
            "type": 19 if message.reply_to is not None else 0,
            "components": message.components,
        }
        if message.nonce is not None:
            payload["nonce"] = message.nonce
        if message.channel.kind is not Kind.DIRECT:
            payload["guild_id"] = str(self.guild)
        if message.reply_to is not None:
            payload["message_reference"] = {
                "type": 0,
                "message_id": str(message.reply_to),
                "channel_id": str(message.channel.id),
            }
            quoted = self.messages.get(message.reply_to)
            if quoted is not None:
                payload["referenced_message"] = self.message_payload(quoted, base) | {"referenced_message": None}
        return payload

    def interaction_payload(self, type: int, data: dict[str, Any], channel: Channel, person: Person) -> dict[str, Any]:
        """A new interaction as the interface shows it: a person uses a command or presses a button."""
        id = self.new_id()
        interaction: dict[str, Any] = {
            "id": str(id),
            "application_id": str(self.bot.id),
            "type": type,
            "data": data,
            "token": f"interaction-{id}",
            "version": 1,
            "channel_id": str(channel.id),
            "channel": self.channel_payload(channel),
            "attachment_size_limit": 2**20,
        }
        if channel.kind is Kind.DIRECT:
            interaction["user"] = person.payload()
        else:
            joined = "2026-01-01T00:00:00+00:00"
            member: dict[str, Any] = {
                "user": person.payload(),
                "roles": [],
                "joined_at": joined,
                "deaf": False,
                "mute": False,
            }
            interaction |= {"guild_id": str(self.guild), "member": {**member, "permissions": "0", "flags": 0}}
        return interaction


_COLORS = {"primary_color": 0, "secondary_color": None, "tertiary_color": None}


def _iso(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat()
