"""Windows: text that comes in many small pieces is let through in fewer ones that read well.

What is let through, put together, is always what came in: nothing is added, dropped or reordered.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

if TYPE_CHECKING:  # not on the path of a command that only looks at options
    from policies import Alarm, Clock

SENTENCE_END = r"[.!?\u2026\u3002\uff01\uff1f][\"'\u201d\u2019\u00bb)\]*_]{0,4}"
"""What ends a sentence, in the scripts that have it, with the quotes and brackets that close behind it."""

_STREAMS = 1000
_BLANKS = 100
_PARAGRAPH = re.compile(rf"\n[ \t]{{0,{_BLANKS}}}\n")
_SENTENCE = re.compile(SENTENCE_END + r"\s")
_CONTENT = re.compile(r"\S")


class Window(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When text that is held goes through: at whichever of these comes first; without any of them, at once."""

    paragraph: Annotated[bool, Meta(description="behind a blank line")] = False
    sentence: Annotated[bool, Meta(description="behind the end of a sentence")] = False
    max_chars: Annotated[int, Meta(ge=1, description="so many characters at most")] | None = None
    marker: (
        Annotated[str, Meta(min_length=1, max_length=100, description="behind this text, which stays in it")] | None
    ) = None
    debounce_s: Annotated[float, Meta(gt=0, description="when nothing came for so many seconds")] | None = None

    @property
    def at_once(self) -> bool:
        """Whether nothing is ever held."""
        return self == _AT_ONCE


_AT_ONCE = Window()


class Held(msgspec.Struct, frozen=True):
    """What came of one stream and was not let through; `seen` characters of it hold no boundary."""

    text: str = ""
    seen: int = 0


def take(window: Window, held: Held, text: str) -> tuple[list[str], Held]:
    """What goes through now that this text came, and what is held behind it.

    A piece ends at the first place where one may end, so the pieces do not depend on how the text was cut before.
    """
    if window.at_once:
        return [text] if text else [], held
    pieces: list[str] = []
    text, seen, start = held.text + text, held.seen, 0
    while (end := _end(window, text, start, start + seen)) is not None:
        pieces.append(text[start:end])
        start, seen = end, 0
    return pieces, Held(text[start:], len(text) - start)


def _end(window: Window, text: str, start: int, seen: int) -> int | None:
    """Where the piece that begins at `start` ends, if it does; up to `seen` it does not."""
    ends: list[int] = []
    content = _CONTENT.search(text, start)  # what is blank goes along with the text behind it
    if content is not None:
        look = max(content.start(), seen - _BLANKS - 2)
        patterns = [_PARAGRAPH] * window.paragraph + [_SENTENCE] * window.sentence
        ends += [found.end() for pattern in patterns if (found := pattern.search(text, look)) is not None]
    if window.marker is not None:
        found_at = text.find(window.marker, max(start, seen - len(window.marker) + 1))
        ends += [found_at + len(window.marker)] * (found_at >= 0)
    if window.max_chars is not None and len(text) - start >= window.max_chars:
        ends.append(start + window.max_chars)
    return min(ends, default=None)


class Windows:
    """The windows of many streams at once; none sees anything of another's text.

    `due(stream, text)` is called with what a pause lets through. Streams whose end never comes are forgotten, those
    untouched longest first, when there are more than `limit`.
    """

    def __init__(
        self, window: Window, clock: Clock, due: Callable[[str, str], object], *, limit: int = _STREAMS
    ) -> None:
        self._window, self._clock, self._due, self._limit = window, clock, due, limit
        self._held: OrderedDict[str, Held] = OrderedDict()
        self._alarms: dict[str, Alarm] = {}

    def __repr__(self) -> str:
        return f"<Windows {len(self._held)} streams, {sum(len(held.text) for held in self._held.values())} held>"

    def write(self, stream: str, text: str) -> list[str]:
        """A piece of a stream came: gives what goes through."""
        pieces, held = take(self._window, self._held.pop(stream, Held()), text)
        self._silence(stream)
        if held.text:
            self._held[stream] = held
            if self._window.debounce_s is not None:
                ring = self._clock.now() + self._window.debounce_s
                self._alarms[stream] = self._clock.call_at(ring, lambda: self._ring(stream))
            if len(self._held) > self._limit:
                self.complete(next(iter(self._held)))
        return pieces

    def complete(self, stream: str) -> str:
        """No more of this stream will come: gives what was held of it."""
        self._silence(stream)
        return self._held.pop(stream, Held()).text

    def close(self) -> None:
        """Forget everything; no alarm rings any more."""
        for stream in list(self._held):
            self.complete(stream)

    def _ring(self, stream: str) -> None:
        self._due(stream, self.complete(stream))

    def _silence(self, stream: str) -> None:
        alarm = self._alarms.pop(stream, None)
        if alarm is not None:
            alarm.cancel()
