"""What code prints, kept up to a limit."""

from __future__ import annotations


class Printed:
    """Collects pieces of text up to a number of characters and remembers whether there was more."""

    def __init__(self, limit: int) -> None:
        self._pieces: list[str] = []
        self._left = limit
        self.cut = False

    def __repr__(self) -> str:
        return f"<Printed pieces={len(self._pieces)} left={self._left}{' cut' if self.cut else ''}>"

    def add(self, text: str) -> None:
        """Add text; what does not fit any more is dropped."""
        if len(text) > self._left:
            self.cut = True
            text = text[: self._left]
        if text:
            self._left -= len(text)
            self._pieces.append(text)

    @property
    def text(self) -> str:
        """Everything that was kept."""
        return clean("".join(self._pieces))


def clean(text: str) -> str:
    """Text that every encoding can hold: halves of surrogate pairs that stand alone are replaced."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
