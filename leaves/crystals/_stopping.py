"""Stop sequences for a provider that has none: a text ends before the first of them, also while it comes in pieces."""

from __future__ import annotations

from collections.abc import Sequence


def cut(text: str, stops: Sequence[str]) -> str:
    """The text up to the stop sequence that begins first; all of it where there is none."""
    return text[: _first(text, stops)]


class Stopping:
    """A text that comes in pieces, told only as far as no stop sequence can begin there.

    What it tells, put together, is what `cut` gives of the whole text, however that was cut into pieces.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        """An empty stop sequence stops nothing."""
        self._stops = tuple(filter(None, stops))
        self._longest = max(map(len, self._stops), default=0)
        self._held = ""
        self.stopped = False

    def __repr__(self) -> str:
        return f"<Stopping {'stopped' if self.stopped else f'holds {self._held!r}'}>"

    def take(self, piece: str) -> str:
        """Add a piece; gives what can be told now."""
        if self.stopped:
            return ""
        text = self._held + piece
        found, possible = _first(text, self._stops), self._possible(text)
        # A longer one that may yet turn out to begin earlier is waited for.
        self.stopped = found < possible
        at = min(found, possible)
        self._held = "" if self.stopped else text[at:]
        return text[:at]

    def end(self) -> str:
        """The text is whole: gives what was held back and is no stop sequence after all."""
        held, self._held = self._held, ""
        told = cut(held, self._stops)
        self.stopped = self.stopped or told != held
        return told

    def _possible(self, text: str) -> int:
        """Where the end of the text begins that may be the beginning of a stop sequence."""
        begins = range(max(0, len(text) - self._longest + 1), len(text))
        return next((at for at in begins if any(stop.startswith(text[at:]) for stop in self._stops)), len(text))


def _first(text: str, stops: Sequence[str]) -> int:
    return min((at for stop in stops if stop and (at := text.find(stop)) >= 0), default=len(text))
