"""What an earlier life has sent of an answer, read off the channel: pure functions over what stands there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from leaves.chats.slack.outgoing import Mark


class Ours(NamedTuple):
    """A message of ours: its timestamp, which is its id, and its mark."""

    ts: str
    mark: Mark


def before(found: Sequence[Ours], answer: str, prompt: str) -> tuple[dict[int, str], list[str]]:
    """The messages of this answer that were sent, by their number, and those that were still being written.

    A message that stands there twice counts once, the first time.
    """
    sent: dict[int, str] = {}
    for one in sorted(found):
        if one.mark.answer == answer:
            sent.setdefault(one.mark.part, one.ts)
    left = sorted(one.ts for one in found if one.mark.answer == "" and one.mark.prompt == prompt)
    return sent, left
