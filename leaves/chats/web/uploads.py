"""Files on their way from a page: they come in pieces, before the message that they belong to."""

from __future__ import annotations

from collections.abc import Sequence

from branches.attachment import FILE_BYTES, FILES, MESSAGE_BYTES, File
from leaves.chats.web.messages import Chosen, Part


class TooMuch(Exception):
    """More than the page would send."""


class Uploads:
    """What has come of files whose message has not. It holds no more than one message may have."""

    def __init__(self) -> None:
        self._files: dict[str, bytearray] = {}

    def __repr__(self) -> str:
        return f"<Uploads {len(self._files)} files, {sum(map(len, self._files.values())):,} bytes>"

    def take(self, part: Part) -> None:
        """The next piece of a file. Raises `TooMuch`."""
        file = self._files.setdefault(part.file, bytearray())
        file += part.data
        if len(self._files) > FILES or len(file) > FILE_BYTES or sum(map(len, self._files.values())) > MESSAGE_BYTES:
            raise TooMuch

    def collect(self, chosen: Sequence[Chosen]) -> tuple[File, ...] | None:
        """The files of a message, which is here now; None where one of them has not come whole."""
        pending, self._files = self._files, {}
        found = [(each, bytes(pending.get(each.file, b""))) for each in chosen]
        if any(len(body) != each.size for each, body in found):
            return None
        return tuple(File(each.name, each.media_type or None, len(body), body) for each, body in found)
