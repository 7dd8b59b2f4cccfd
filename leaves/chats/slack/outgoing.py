"""An answer as Slack takes it: messages in its notation that are not too long, each with a mark to know it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from branches.attachment import Attachment
from branches.chat.live import CURSOR
from branches.chat.splitting import SMALLEST_LIMIT, split
from leaves.chats.slack.mrkdwn import escape, mrkdwn

LIMIT = 4000
"""Characters of a message that Slack lets us edit."""
EMPTY = "_(an empty answer)_"
_SECTION = 3000
_BUTTONS = 25
_FILES = 10
_LABEL = 75
_ACTION = "coven"
_EVENT = "coven_answer"


class Part(NamedTuple):
    """One message; with `blocks`, the text is what a notification shows. Links to the `files` go behind the text."""

    text: str
    blocks: tuple[Mapping[str, Any], ...] = ()
    files: tuple[Attachment, ...] = ()


class Mark(NamedTuple):
    """Which message this is, in its metadata: which part of which answer, or of one still being written to a prompt."""

    answer: str
    prompt: str
    part: int

    def payload(self) -> dict[str, Any]:
        """As Slack takes it. Whoever may read the channel through Slack's interface may read it."""
        return {"event_type": _EVENT, "event_payload": self._asdict()}


def mark_of(metadata: Any) -> Mark | None:
    """The mark in the metadata of a message; None if that is not ours."""
    match metadata:
        case {
            "event_type": "coven_answer",
            "event_payload": {"answer": str(answer), "prompt": str(prompt), "part": int(part)},
        }:
            return Mark(answer, prompt, part)
        case _:
            return None


def parts(text: str, files: Sequence[Attachment] = ()) -> list[Part]:
    """The messages of an answer, at least one. Files go in messages of their own behind it."""
    groups = [tuple(files[start : start + _FILES]) for start in range(0, len(files), _FILES)]
    said = [Part(message) for message in _messages(text)]
    return [*said, *(Part("", files=group) for group in groups)] or [Part(EMPTY)]


def linked(name: str, address: str) -> str:
    """A file in the text of a message: Slack shows what it finds at this address of its own."""
    return f"<{escape(address)}|{escape(name).replace('|', '/')}>"


def unfinished(text: str) -> list[str]:
    """The messages of an answer that is still being written."""
    return _messages(f"{text.rstrip()} {CURSOR}")


def asking(text: str, question: str, choices: Sequence[str]) -> list[Part]:
    """The messages of a question with choices: to the letter, so that one sees what is approved, and with buttons.

    More choices than Slack has buttons for are answered in words.
    """
    if not 0 < len(choices) <= _BUTTONS:
        return parts(text)
    *first, last = [text[start : start + _SECTION] for start in range(0, len(text), _SECTION)] or [EMPTY]
    elements = [
        {
            "type": "button",
            "action_id": f"{_ACTION}:{number}",
            "value": question,
            "text": {"type": "plain_text", "text": choice[:_LABEL] or "?", "emoji": False},
        }
        for number, choice in enumerate(choices)
    ]
    buttons = {"type": "actions", "block_id": f"{_ACTION}:buttons", "elements": elements}
    shown = [Part(escape(piece)[:LIMIT], (_section(piece),)) for piece in (*first, last)]
    return [*shown[:-1], shown[-1]._replace(blocks=(*shown[-1].blocks, buttons))]


def answered(blocks: Sequence[Mapping[str, Any]], told: str) -> Part:
    """The message of a question without its buttons, and with who answered what below it."""
    kept = [block for block in blocks if block.get("type") != "actions"]
    below = {"type": "context", "elements": [{"type": "mrkdwn", "text": told[:_SECTION]}]}
    return Part(told[:LIMIT], (*kept, below))


def pressed(action_id: str) -> int | None:
    """The number of the choice that a button stands for; None for one that is not ours."""
    ours, colon, number = action_id.partition(":")
    return int(number) if ours == _ACTION and colon and number.isascii() and number.isdigit() else None


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "plain_text", "text": text, "emoji": False}}


def _messages(text: str, limit: int = LIMIT) -> list[str]:
    """The text in Slack's notation, cut where a reader would; that notation is longer than the text."""
    messages: list[str] = []
    for piece in split(text, limit):
        shown = mrkdwn(piece).strip()
        if len(shown) > LIMIT and limit > SMALLEST_LIMIT:
            messages += _messages(piece, max(SMALLEST_LIMIT, limit // 2))
        elif shown:
            messages.append(shown)
    return messages
