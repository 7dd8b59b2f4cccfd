"""Files that come with a message or go with one. Their bytes are recorded: a provider's address of them expires."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

FILE_BYTES: Final = 8 * 1024 * 1024
"""Bytes of one file at most."""
MESSAGE_BYTES: Final = 2 * FILE_BYTES
"""Bytes of all files of one message at most."""
FILES: Final = 10
"""Files of one message at most."""
TEXT_CHARS: Final = 20_000
"""Characters of a message's text files that are told, where nothing else is said."""
_IMAGES: Final = {
    "image/png": (b"\x89PNG\r\n\x1a\n", 0, b"", (".png",)),
    "image/jpeg": (b"\xff\xd8\xff", 0, b"", (".jpg", ".jpeg")),
    "image/gif": (b"GIF8", 0, b"", (".gif",)),
    "image/webp": (b"RIFF", 8, b"WEBP", (".webp",)),
}
IMAGE_TYPES: Final = tuple(_IMAGES)
_IMAGE_ENDINGS: Final = tuple(ending for _, _, _, endings in _IMAGES.values() for ending in endings)
_NAME_CHARS: Final = 100
_BYTES_A_CHARACTER = 4
_TEXT_TYPES = ("application/json", "application/xml", "application/yaml", "application/x-yaml", "image/svg+xml")
_TEXT_ENDINGS = (
    *(".txt", ".md", ".rst", ".csv", ".tsv", ".json", ".jsonl", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".log"),
    *(".xml", ".html", ".css", ".sql", ".sh", ".ps1", ".py", ".js", ".ts", ".tsx", ".jsx", ".java", ".kt", ".go"),
    *(".rs", ".c", ".h", ".cpp", ".hpp", ".cs", ".rb", ".php", ".lua", ".swift", ".diff", ".patch", ".svg"),
)
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\[\]]+")


class Attachment(msgspec.Struct, frozen=True):
    """A file with its bytes. `name` is a plain file name, `media_type` what the bytes are."""

    name: str
    media_type: str
    body: bytes

    @property
    def is_image(self) -> bool:
        """Whether it is an image that models can be shown."""
        return self.media_type in IMAGE_TYPES

    def __repr__(self) -> str:
        return f"<Attachment {self.name!r}, {self.media_type}, {len(self.body):,} bytes>"


class File(NamedTuple):
    """A file that comes with a message, as it says of itself.

    `body` is None where it was not read, and `problem` tells why, where that is no matter of its kind or size.
    """

    name: str
    type: str | None
    size: int
    body: bytes | None = None
    problem: str | None = None


class Taken(NamedTuple):
    """What is made of files that come with a message: what is told of each, and the images with their bytes."""

    told: tuple[str, ...]
    images: tuple[Attachment, ...]


def is_text(name: str, type: str | None) -> bool:
    """Whether a file says that it is text."""
    kind = _kind(type)
    return kind.startswith("text/") or kind in _TEXT_TYPES or name.lower().endswith(_TEXT_ENDINGS)


def says_image(name: str, type: str | None) -> bool:
    """Whether a file says that it is an image that models can be shown."""
    return _kind(type) in IMAGE_TYPES or (not _kind(type) and name.lower().endswith(_IMAGE_ENDINGS))


def is_worth_reading(file: File, characters: int) -> bool:
    """Whether the bytes of a file are of use, where so many characters of text can be told."""
    if is_text(file.name, file.type):
        return characters > 0 and file.size <= max(characters, 1_000) * _BYTES_A_CHARACTER
    return file.problem is None and says_image(file.name, file.type) and 0 < file.size <= FILE_BYTES


def take(files: Iterable[File], characters: int = TEXT_CHARS) -> Taken:
    """What the model is told of each file, in order: text with as much of it as there is room for, others by name.

    Images keep their bytes, as long as they are what they say and no more than a message may have.
    """
    told: list[str] = []
    images: list[Attachment] = []
    room = MESSAGE_BYTES
    for file in files:
        name = plain_name(file.name)
        kind = _kind(file.type) or "unknown type"
        head = f"[attached: {name}, {kind}, {file.size:,} bytes"
        if file.body is not None and is_text(file.name, file.type):
            content = file.body.decode("utf-8", "replace")
            shown = content[:characters]
            characters -= len(shown)
            cut = "" if len(shown) == len(content) else f", the first {len(shown):,} of {len(content):,} characters"
            told.append(f"{head}{cut}]\n{shown}" if shown else f"{head}, {'too long to show' if content else 'empty'}]")
            continue
        if file.problem is None and not says_image(file.name, file.type):
            told.append(f"{head}]")
            continue
        problem = file.problem or _problem(file, room, len(images))
        if problem is None and file.body is not None:
            image = Attachment(name, image_type(file.body) or kind, file.body)
            images.append(image)
            room -= len(image.body)
            head = f"[attached: {name}, {image.media_type}, {file.size:,} bytes"
        told.append(f"{head}]" if problem is None else f"{head}, not shown: {problem}]")
    return Taken(tuple(told), tuple(images))


def plain_name(name: str) -> str:
    """A file name for people and for disks: no folders, nothing unprintable, at most 100 characters."""
    last = re.split(r"[/\\]", name)[-1]
    last = " ".join(_UNPRINTABLE.sub(" ", last).split())
    if len(last) > _NAME_CHARS:
        stem, dot, ending = last.rpartition(".")
        last = f"{stem[: _NAME_CHARS - len(ending) - 1]}.{ending}" if dot and len(ending) <= 10 else last[:_NAME_CHARS]
    return last if last.strip(". ") else "file"


def image_type(body: bytes) -> str | None:
    """What the bytes themselves say: the type of an image that models can be shown, or None."""
    for type, (start, at, mark, _) in _IMAGES.items():
        if body.startswith(start) and body[at:].startswith(mark) and len(body) > max(len(start), at + len(mark)):
            return type
    return None


def _problem(file: File, room: int, images: int) -> str | None:
    """Why an image is not shown."""
    if file.size == 0 or file.body == b"":
        return "it is empty"
    if max(file.size, len(file.body or b"")) > FILE_BYTES:
        return f"larger than {FILE_BYTES // 1024**2} MiB"
    if file.body is None:
        return "it could not be read"
    if image_type(file.body) is None:
        return "it is not the image that it says it is"
    if images >= FILES:
        return f"a message has at most {FILES}"
    return f"a message has at most {MESSAGE_BYTES // 1024**2} MiB of them" if len(file.body) > room else None


def _kind(type: str | None) -> str:
    return _UNPRINTABLE.sub(" ", (type or "").partition(";")[0]).strip().lower()[:80]
