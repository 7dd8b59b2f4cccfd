"""A platform's message as a prompt: whether it is meant for us, who says it, and what is attached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Listening(Protocol):
    """The options that say which messages a bot takes."""

    @property
    def listen(self) -> str:
        """`mentions` or `everything`."""
        ...

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels that it listens to; all if none."""
        ...

    @property
    def direct_messages(self) -> bool:
        """Whether it takes direct messages."""
        ...


class Where(NamedTuple):
    """Where a message stands and whether it speaks to the bot."""

    channel: str
    parent: str | None
    direct: bool
    addressed: bool


def is_meant(where: Where, options: Listening) -> bool:
    """Whether the bot takes a message that stands there."""
    if where.direct:
        return options.direct_messages
    if options.channels and not {where.channel, where.parent} & set(options.channels):
        return False
    return where.addressed or options.listen == "everything"


def author(name: str) -> str:
    """A name on one line, as it stands before what its owner says."""
    return " ".join(name.split())[:80] or "somebody"


def prompt(text: str, sender: str | None, told: Sequence[str] = ()) -> str:
    """What the model is told: who says it, the text, and what `branches.attachment.take` tells of each file with it."""
    said = text.strip()
    parts = [f"{sender}: {said}" if sender is not None else said, *told]
    return "\n\n".join(part for part in parts if part)
