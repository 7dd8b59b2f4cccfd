"""A platform's message as a prompt: whether it is meant for us, who says it, and what is attached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

_TEXT_ENDINGS = (
    *(".txt", ".md", ".rst", ".csv", ".tsv", ".json", ".jsonl", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".log"),
    *(".xml", ".html", ".css", ".sql", ".sh", ".ps1", ".py", ".js", ".ts", ".tsx", ".jsx", ".java", ".kt", ".go"),
    *(".rs", ".c", ".h", ".cpp", ".hpp", ".cs", ".rb", ".php", ".lua", ".swift", ".diff", ".patch"),
)
_BYTES_A_CHARACTER = 4


class Listening(Protocol):
    """The options that say which messages a bot takes."""

    @property
    def listen(self) -> str:
        """`mentions` or `everything`."""
        ...

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels that it listens to; all if none."""
        ...

    @property
    def direct_messages(self) -> bool:
        """Whether it takes direct messages."""
        ...


class Where(NamedTuple):
    """Where a message stands and whether it speaks to the bot."""

    channel: str
    parent: str | None
    direct: bool
    addressed: bool


class File(NamedTuple):
    """An attached file; `body` is None where it was not read."""

    name: str
    type: str | None
    size: int
    body: bytes | None = None


def is_meant(where: Where, options: Listening) -> bool:
    """Whether the bot takes a message that stands there."""
    if where.direct:
        return options.direct_messages
    if options.channels and not {where.channel, where.parent} & set(options.channels):
        return False
    return where.addressed or options.listen == "everything"


def is_text(name: str, type: str | None) -> bool:
    """Whether an attachment says that it is text."""
    kind = (type or "").partition(";")[0].strip()
    named = kind in ("application/json", "application/xml", "application/yaml", "application/x-yaml")
    return kind.startswith("text/") or named or name.lower().endswith(_TEXT_ENDINGS)


def wanted_bytes(size: int, characters: int) -> bool:
    """Whether a file of this size is worth reading for so many characters."""
    return characters > 0 and size <= max(characters, 1_000) * _BYTES_A_CHARACTER


def author(name: str) -> str:
    """A name on one line, as it stands before what its owner says."""
    return " ".join(name.split())[:80] or "somebody"


def prompt(text: str, sender: str | None, files: Sequence[File], characters: int) -> str:
    """What the model is told: who says it, the text, and each attachment with as much of its text as there is room."""
    said = text.strip()
    parts = [f"{sender}: {said}" if sender is not None else said]
    for file in files:
        head = f"[attached: {file.name}, {file.type or 'unknown type'}, {file.size:,} bytes"
        if file.body is None:
            parts.append(f"{head}]")
            continue
        content = file.body.decode("utf-8", "replace")
        shown = content[:characters]
        characters -= len(shown)
        cut = "" if len(shown) == len(content) else f", the first {len(shown):,} of {len(content):,} characters"
        parts.append(f"{head}{cut}]\n{shown}" if shown else f"{head}, too long to show]")
    return "\n\n".join(part for part in parts if part)
