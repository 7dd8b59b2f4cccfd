"""Text that is being written on a terminal: whole lines go above the prompt for good, the rest stands live above it."""

from __future__ import annotations


class Writing:
    """What was shown of the message that answers each prompt, and what of it may still change.

    A stream shows one utterance; the message itself comes later, and only what it has beyond its stream is left to
    print. The streams of other utterances, which called tools, stay on the screen as they were.
    """

    def __init__(self) -> None:
        self._stream: str | None = None
        self._correlation: str | None = None
        self._shown = ""
        self._live = ""
        self._done: str | None = None

    def __repr__(self) -> str:
        return f"<Writing {self._stream}: {len(self._shown)} characters, {len(self._live)} of them live>"

    @property
    def live(self) -> str:
        """The line that is not finished."""
        return self._live

    def add(self, stream: str, correlation: str | None, text: str, heading: str, room: int) -> str:
        """A piece came: gives what goes above the prompt for good. At most `room` characters stay live."""
        if correlation is not None and correlation == self._done:
            return ""  # the message itself has arrived
        lines = ""
        if stream != self._stream:
            lines = self.rest()
            self._stream, self._correlation, self._shown, self._live = stream, correlation, "", heading
        self._shown += text
        whole, newline, self._live = (self._live + text).rpartition("\n")
        lines += whole + newline
        while len(self._live) > room:
            cut = self._live.rfind(" ", 1, room) + 1 or room
            lines += self._live[:cut] + "\n"
            self._live = self._live[cut:]
        return lines

    def finish(self, correlation: str | None, text: str) -> str | None:
        """The message came: gives the lines that end it, or None where it is to be printed whole.

        In the latter case `rest` gives what stands live.
        """
        self._done = correlation
        if correlation is None or correlation != self._correlation or not self._shown.strip():
            return None
        if not text.startswith(self._shown.rstrip()):
            return None
        lines = self._live + text[len(self._shown) :]
        self._forget()
        return lines + "\n"

    def rest(self) -> str:
        """The line that stands live, finished; there is none afterwards."""
        lines = f"{self._live}\n" if self._live else ""
        self._forget()
        return lines

    def _forget(self) -> None:
        self._stream = self._correlation = None
        self._shown = self._live = ""
