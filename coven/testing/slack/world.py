"""Who and what there is: people, channels, messages, each as Slack's interface shows it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Person:
    """A user."""

    id: str
    name: str
    bot: str | None = None
    """The id as a bot, if it is one."""

    def payload(self) -> dict[str, Any]:
        """As the interface shows it."""
        profile = {"display_name": self.name, "real_name": f"{self.name} of the house"}
        return {"id": self.id, "name": self.name.lower(), "is_bot": self.bot is not None, "profile": profile}


@dataclass
class Channel:
    """A channel, or a direct message, whose id begins with D. `member` is whether our bot is in it."""

    id: str
    name: str
    member: bool = True
    private: bool = False

    @property
    def direct(self) -> bool:
        """Whether it is a direct message."""
        return self.id.startswith("D")

    @property
    def kind(self) -> str:
        """As which of its types the interface lists it."""
        return "im" if self.direct else "private_channel" if self.private else "public_channel"


@dataclass
class Message:
    """A message; `history` is what it said before its edits, `thread` the message that its thread began with.

    One in a thread that is a `broadcast` stands in its channel too.
    """

    ts: str
    channel: Channel
    author: Person
    text: str
    thread: str | None = None
    broadcast: bool = False
    metadata: dict[str, Any] | None = None
    blocks: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    files: list[tuple[str, bytes, str]] = field(default_factory=list[tuple[str, bytes, str]])
    history: list[str] = field(default_factory=list[str])


class World:
    """One workspace with its channels, and what was said there."""

    def __init__(self) -> None:
        self._last, self._ids = 0, 0
        self.team = self.new_id("T")
        self.bot = Person(self.new_id("U"), "Coven", self.new_id("B"))
        self.people: dict[str, Person] = {}
        self.channels: dict[str, Channel] = {}
        self.messages: dict[tuple[str, str], Message] = {}
        self.general = self.channel("general")

    def __repr__(self) -> str:
        return f"<World {len(self.channels)} channels, {len(self.messages)} messages>"

    def new_id(self, kind: str) -> str:
        """A new id; its first letter tells what it is of."""
        self._ids += 1
        return f"{kind}{self._ids:010d}"

    def new_ts(self) -> str:
        """A timestamp, which is the id of a message: they grow, and tell the time."""
        self._last = max(self._last + 1, int(time.time() * 1_000_000))
        return f"{self._last // 1_000_000}.{self._last % 1_000_000:06d}"

    def person(self, name: str, *, bot: bool = False) -> Person:
        """The person of this name, new if it has to be."""
        if name not in self.people:
            self.people[name] = Person(self.new_id("U"), name, self.new_id("B") if bot else None)
        return self.people[name]

    def channel(self, name: str, *, direct: bool = False, private: bool = False) -> Channel:
        """A new channel."""
        made = Channel(self.new_id("D" if direct else "C"), name, private=private)
        self.channels[made.id] = made
        return made

    def add(self, channel: Channel, author: Person, text: str, **more: Any) -> Message:
        """A new message."""
        message = Message(self.new_ts(), channel, author, text, **more)
        self.messages[channel.id, message.ts] = message
        return message

    def of_bot(self, channel: Channel, thread: Message | None = None) -> list[Message]:
        """What the bot says in a channel, or in a thread of it, in order."""
        root = thread.ts if thread is not None else None
        found = [m for m in self.messages.values() if m.channel is channel and m.author == self.bot]
        return sorted((m for m in found if m.thread == root), key=lambda message: message.ts)

    def in_place(self, channel: Channel, thread: str | None) -> list[Message]:
        """The messages of a channel, without those in threads; or those of a thread, with the one it began with."""
        found = [m for m in self.messages.values() if m.channel is channel]
        return [m for m in found if (m.thread is None or m.broadcast if thread is None else thread in (m.thread, m.ts))]

    def told(self, message: Message, base: str, *, metadata: bool = False) -> dict[str, Any]:
        """A message as the interface shows it among others: with its thread, if one begins with it."""
        shown = self.payload(message, base, metadata=metadata)
        replies = [m.ts for m in self.in_place(message.channel, message.ts) if m is not message]
        if replies:
            shown |= {"thread_ts": message.ts, "reply_count": len(replies), "latest_reply": max(replies)}
        return shown

    def payload(self, message: Message, base: str, *, metadata: bool = False) -> dict[str, Any]:
        """A message as an app hears of it; `base` is where files are read."""
        shown: dict[str, Any] = {
            "type": "message",
            "ts": message.ts,
            "user": message.author.id,
            "text": message.text,
            "team": self.team,
        }
        if message.author.bot is not None:
            shown["bot_id"] = message.author.bot
        if message.blocks:
            shown["blocks"] = message.blocks
        if message.thread is not None:
            shown["thread_ts"] = message.thread
            root = self.messages.get((message.channel.id, message.thread))
            shown |= {"parent_user_id": root.author.id} if root is not None else {}
        if message.broadcast:
            shown["subtype"] = "thread_broadcast"
        if message.files:
            shown["subtype"] = "file_share"
            shown["files"] = [
                {
                    "id": f"F{number}",
                    "name": name,
                    "mimetype": type,
                    "size": len(body),
                    "mode": "hosted",
                    "url_private": f"{base}/files/{message.channel.id}/{message.ts}/{number}",
                }
                for number, (name, body, type) in enumerate(message.files)
            ]
        if metadata and message.metadata is not None:
            shown["metadata"] = message.metadata
        return shown

    def command_payload(self, name: str, text: str, channel: Channel, person: Person) -> dict[str, Any]:
        """A slash command as an app hears of it."""
        return {
            "command": name,
            "text": text,
            "user_id": person.id,
            "user_name": person.name.lower(),
            "channel_id": channel.id,
            "channel_name": "directmessage" if channel.direct else channel.name,
            "team_id": self.team,
            "trigger_id": self.new_id("Tr"),
        }

    def press_payload(self, message: Message, number: int, person: Person, base: str) -> dict[str, Any]:
        """The press of a numbered button as an app hears of it; `base` is where files are read."""
        buttons = [element for block in message.blocks for element in block.get("elements", ()) if "value" in element]
        container = {"type": "message", "message_ts": message.ts, "channel_id": message.channel.id}
        if message.thread is not None:
            container["thread_ts"] = message.thread
        return {
            "type": "block_actions",
            "user": {"id": person.id, "team_id": self.team},
            "trigger_id": self.new_id("Tr"),
            "container": container,
            "channel": {"id": message.channel.id, "name": message.channel.name},
            "message": self.payload(message, base),
            "actions": [{**buttons[number], "action_ts": self.new_ts()}],
        }
