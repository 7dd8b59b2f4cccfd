"""Fitting: what is too long for a crystal, and cannot be folded, is shown by both its ends. The loom has it whole."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from branches.agents.crystal import Message
from branches.agents.folding import CHARS_A_TOKEN, TRIGGER_SHARE, Folded, TurnMessages, estimate_tokens, shown
from branches.agents.folding_text import shortened

SHORTEST: Final = 200
"""Characters of a message that are shown in any case."""
_MARK_CHARS = 100
"""What the mark in a shortened message takes at most: so it is not shortened again."""
_SHORTENED = ("user", "tool")
"""Whose messages are shortened: what a crystal has said itself, and its call, are shown as they are."""


class View(msgspec.Struct, frozen=True):
    """What a request shows, in the order in which it is shown; `pending` are intents that no turn has followed yet."""

    system: tuple[Message, ...]
    folded: Folded | None
    turns: tuple[TurnMessages, ...]
    pending: tuple[Message, ...]

    @property
    def messages(self) -> list[Message]:
        """The messages of the request."""
        return shown(self.system, self.folded, self.turns, self.pending)


def fits(tokens: int, context_limit: int) -> bool:
    """Whether a request of so many tokens leaves room for an answer."""
    return tokens <= int(context_limit * TRIGGER_SHARE)


def fitted(view: View, context_limit: int, density: float = 1.0) -> View:
    """The view itself if it fits, else with its longest messages shortened until it takes half of the room, at best.

    `context_limit` is what the crystal takes, in tokens; `density` is how many tokens there are to an estimated one.
    """
    room = int(context_limit * TRIGGER_SHARE / density)
    if estimate_tokens(view.messages) <= room:
        return view
    limit = max(SHORTEST, room // 2 * CHARS_A_TOKEN)
    made = _shortened(view, limit)
    while limit > SHORTEST and estimate_tokens(made.messages) > room // 2:
        limit = max(SHORTEST, limit // 2)
        made = _shortened(view, limit)
    return made


def _shortened(view: View, limit: int) -> View:
    """No message of others is longer than this."""
    folded = view.folded
    return View(
        system=view.system,
        folded=folded and msgspec.structs.replace(folded, intents=_each(folded.intents, limit)),
        turns=tuple(
            msgspec.structs.replace(turn, messages=_each(turn.messages, limit), intents=_each(turn.intents, limit))
            for turn in view.turns
        ),
        pending=_each(view.pending, limit),
    )


def _each(messages: Iterable[Message], limit: int) -> tuple[Message, ...]:
    return tuple(
        msgspec.structs.replace(message, content=shortened(message.content, limit))
        if message.role in _SHORTENED and message.content and len(message.content) > limit + _MARK_CHARS
        else message
        for message in messages
    )
