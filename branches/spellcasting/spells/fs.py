"""The spells of the `fs` substrate: the files of one folder, the workspace."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from branches.spellcasting.spell import Spell


class ReadText(Spell, frozen=True, kw_only=True):
    """Read a text file of the workspace.

    Gives the text, the file's size in bytes, and whether the text was cut at `max_bytes` (`truncated`). Bytes that
    are not UTF-8 come as the replacement character, and `valid_utf8` is then false.
    """

    full_name = "fs.read_text"
    idempotent = True

    path: Annotated[str, Meta(description="path of the file, relative to the workspace, e.g. notes/today.md")]
    max_bytes: Annotated[int, Meta(ge=1, description="read at most this many bytes from the file's beginning")] = 20_000


class ListDir(Spell, frozen=True, kw_only=True):
    """List a folder of the workspace, sorted by name: each entry with its type, and its size in bytes if it is a file.

    `total` counts all entries; `truncated` says that there are more than were listed.
    """

    full_name = "fs.list_dir"
    idempotent = True

    path: Annotated[str, Meta(description="path of the folder, relative to the workspace")] = "."
    max_entries: Annotated[int, Meta(ge=1, le=100_000, description="list at most this many entries")] = 200


class WriteText(Spell, frozen=True, kw_only=True):
    """Write a text file of the workspace as UTF-8, whole or not at all. Folders on the way are made.

    An existing file is left alone unless `overwrite` is true.
    """

    # Not idempotent, also with `overwrite`: what somebody else wrote in between would be lost by a second cast.
    full_name = "fs.write_text"

    path: Annotated[str, Meta(description="path of the file, relative to the workspace, e.g. notes/today.md")]
    text: Annotated[str, Meta(description="what the file shall hold")]
    overwrite: Annotated[bool, Meta(description="replace the file if it exists")] = False


class Attach(Spell, frozen=True, kw_only=True):
    """Send a file of the workspace to the person you work for: it goes with your answer, as a file of its own.

    Use it for what the person is to have as a file, such as a picture, a table or a long text.
    """

    full_name = "fs.attach"
    idempotent = True

    path: Annotated[str, Meta(description="path of the file, relative to the workspace, e.g. out/chart.png")]
