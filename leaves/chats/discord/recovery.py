"""What an earlier life has sent of an answer, read off the channel: pure functions over what stands there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from leaves.chats.discord.outgoing import is_unfinished

_EPOCH_MS = 1_420_070_400_000


class Ours(Protocol):
    """A message of ours."""

    @property
    def id(self) -> int:
        """Its id."""
        ...

    @property
    def text(self) -> str:
        """What it says."""
        ...

    @property
    def reply_to(self) -> int | None:
        """The message that it replies to."""
        ...

    @property
    def touched(self) -> float:
        """When it was sent or last edited, in seconds since the epoch."""
        ...


def snowflake(time: float) -> int:
    """The smallest id that Discord gives at this time."""
    return max(0, int(time * 1000) - _EPOCH_MS) << 22


def before(
    found: Sequence[Ours], wanted: Sequence[str], reply_to: int | None, committed: float
) -> tuple[list[int], list[int]]:
    """The ids of an answer's messages that were sent, and of those of it that were still being written.

    `found` is in order. An answer begins with a reply to its question, if there is one, and goes on without. What
    was sent or edited before the answer was committed is no part of it, however like it looks.
    """
    sent: list[int] = []
    left: list[int] = []
    for answer in _answers(found, reply_to):
        same = 0
        while (
            same < min(len(answer), len(wanted))
            and answer[same].text == wanted[same]
            and (answer[same].touched >= committed or is_unfinished(answer[-1].text))
        ):
            same += 1
        if same > len(sent):
            sent, left = [one.id for one in answer[:same]], []
        if is_unfinished(answer[-1].text):
            left += [one.id for one in answer[same:]]
    return sent, [id for id in left if id not in sent]


def _answers(found: Sequence[Ours], reply_to: int | None) -> Iterator[Sequence[Ours]]:
    """The runs of messages that may be an answer."""
    starts = [n for n, one in enumerate(found) if one.reply_to == reply_to]
    others = [n for n, one in enumerate(found) if one.reply_to is not None and one.reply_to != reply_to]
    for start in starts:
        ends = (
            [n for n in (*starts, *others, len(found)) if n > start] if reply_to is not None else [*others, len(found)]
        )
        yield found[start : min(n for n in ends if n > start)]
