"""Splitting: a long text as several messages, none longer than a platform takes.

It is cut where a reader would: at a blank line, around a code block, at a line, a sentence, a word. A code block that
must be cut is closed in one message and opened again in the next.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import NamedTuple

from branches.chat.windows import SENTENCE_END

SMALLEST_LIMIT = 200
_FENCE = re.compile(r"[ \t]{0,12}(`{3,12})[ \t]{0,4}([^`\n]{0,60})")
_SENTENCE = re.compile(SENTENCE_END + r"(?=\s)")
_SPACE = re.compile(r"(?<=\S)[ \t]")
_LEAST = 0.4
"""How much of the room a message fills at least before a better place to cut counts."""


class Fence(NamedTuple):
    """An open code block: its marks, e.g. three backticks, and what stands behind them, e.g. a language."""

    marks: str
    info: str


class Cut(NamedTuple):
    """One message, how much of the text it stands for, and the code block that goes on behind it."""

    message: str
    taken: int
    fence: Fence | None


class _Place(IntEnum):
    """Where a text is cut, the best first."""

    PARAGRAPH = 0
    FENCE = 1
    LINE = 2
    SENTENCE = 3
    SPACE = 4
    ANYWHERE = 5


class _Candidate(NamedTuple):
    position: int
    place: _Place
    fence: Fence | None


def split(text: str, limit: int) -> list[str]:
    """The messages that this text is, in order; none for a blank text.

    Each has at most `limit` characters, which must be 200 or more. Time grows with the text's length, so that one that
    is still being written may be split again and again.
    """
    messages: list[str] = []
    fence: Fence | None = None
    while text:
        cut = first_message(text, limit, fence)
        if cut.message:
            messages.append(cut.message)
        text, fence = text[cut.taken :], cut.fence
    return messages


def first_message(text: str, limit: int, fence: Fence | None = None) -> Cut:
    """The first message of a text, inside `fence` if that is open where the text begins.

    The message is empty where it would be blank. Raises `ValueError` for a limit below 200.
    """
    if limit < SMALLEST_LIMIT:
        raise ValueError(f"a message must take {SMALLEST_LIMIT} characters or more, not {limit}")
    opening = "" if fence is None else f"{fence.marks}{fence.info}\n"
    if len(text) + len(opening) <= limit:
        whole = _render(opening, text, _fence_at_end(text, fence))
        if len(whole) <= limit:
            return Cut(whole, len(text), None)
    room = limit - len(opening) - 13  # a closing line of the longest marks fits behind it
    candidates = _candidates(text, room, fence)
    cut = _best(candidates, room)
    message, taken = _render(opening, text[: cut.position], cut.fence), cut.position
    if cut.fence is None:
        taken += len(text) - taken - len(text[taken:].lstrip())
        return Cut(message, taken, None)
    taken += text.startswith("\n", taken)
    line = _line(text, taken)
    if _closes(line, cut.fence):  # we have closed it already
        return Cut(message, taken + len(line), None)
    return Cut(message, taken, cut.fence)


def _render(opening: str, text: str, fence: Fence | None) -> str:
    """The message of this text, inside its code block from the first line and to the last where that is open."""
    text = text.rstrip() if fence is None else text.rstrip("\n")
    if not text.strip():
        return ""
    closing = "" if fence is None else f"\n{fence.marks}"
    return f"{opening}{text if opening else text.lstrip(chr(10))}{closing}"


def _candidates(text: str, room: int, fence: Fence | None) -> list[_Candidate]:
    """The places where the first `room` characters may be cut, and the code block that is open at each."""
    found: list[_Candidate] = []
    start = 0
    while start <= room:
        line = _line(text, start)
        end = start + len(line)
        opened = _opens(line) if fence is None else None
        if opened is not None:
            found.append(_Candidate(start, _Place.FENCE, None))
            fence = opened
        elif fence is not None and _closes(line, fence):
            found.append(_Candidate(start, _Place.LINE, fence))
            fence = None
            found.append(_Candidate(end, _Place.FENCE, None))
        else:
            blank = fence is None and not line.strip()
            inside = _within(text, start, min(end, room), fence)
            found += [*inside, _Candidate(end, _Place.PARAGRAPH if blank else _Place.LINE, fence)]
            if end > room:
                found.append(_Candidate(room, _Place.ANYWHERE, fence))
        start = end + 1
    return [candidate for candidate in found if 0 < candidate.position <= room]


def _within(text: str, start: int, end: int, fence: Fence | None) -> list[_Candidate]:
    """The places inside a line."""
    spaces = [_Candidate(found.start(), _Place.SPACE, fence) for found in _SPACE.finditer(text, start, end)]
    if fence is not None:
        return spaces
    return [*spaces, *(_Candidate(f.end(), _Place.SENTENCE, None) for f in _SENTENCE.finditer(text, start, end))]


def _best(candidates: list[_Candidate], room: int) -> _Candidate:
    for place in _Place:
        last = max((c for c in candidates if c.place is place), key=_position, default=None)
        if last is not None and last.position >= room * _LEAST:
            return last
    return max(candidates, key=_position)


def _position(candidate: _Candidate) -> int:
    return candidate.position


def _fence_at_end(text: str, fence: Fence | None) -> Fence | None:
    for line in text.split("\n"):
        if fence is None:
            fence = _opens(line)
        elif _closes(line, fence):
            fence = None
    return fence


def _line(text: str, start: int) -> str:
    end = text.find("\n", start)
    return text[start:] if end < 0 else text[start:end]


def _opens(line: str) -> Fence | None:
    found = _FENCE.fullmatch(line)
    return None if found is None else Fence(found[1], found[2].strip())


def _closes(line: str, fence: Fence) -> bool:
    found = _FENCE.fullmatch(line)
    return found is not None and not found[2].strip() and len(found[1]) >= len(fence.marks)
