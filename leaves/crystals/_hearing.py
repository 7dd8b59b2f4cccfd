"""The pieces of an answer as they come, and who is told them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Piece(NamedTuple):
    """What one event of a stream brought: text, a part of a thought, or neither."""

    text: str = ""
    thought: str = ""


class Hearing(NamedTuple):
    """Who is told the pieces. A crystal that nobody hears does not stream."""

    on_text: Callable[[str], None] | None
    on_thought: Callable[[str], None] | None

    def take(self, piece: Piece) -> None:
        """Tell what there is to tell."""
        if piece.thought and self.on_thought is not None:
            self.on_thought(piece.thought)
        if piece.text and self.on_text is not None:
            self.on_text(piece.text)


class Thoughts:
    """Several thoughts as one text, with a blank line between two of them, as the whole answer has them."""

    def __init__(self) -> None:
        self._last: object = None

    def __repr__(self) -> str:
        return f"<Thoughts, now {self._last!r}>"

    def take(self, thought: object, piece: str) -> str:
        """A piece of the thought that is known by this: gives what it adds to the text."""
        if not piece:
            return ""
        before = "" if self._last is None or self._last == thought else "\n\n"
        self._last = thought
        return before + piece
