"""Text for people, broken into lines that fit."""

from __future__ import annotations

import textwrap


def wrapped(text: str, columns: int) -> str:
    """The text with no line over so many characters, broken at spaces; a line goes on as far in as it began.

    A word that is longer stays whole: it may be an address.
    """
    return "\n".join(_wrapped(line, columns) for line in text.split("\n"))


def _wrapped(line: str, columns: int) -> str:
    if len(line) <= columns:
        return line
    indent = line[: len(line) - len(line.lstrip(" "))]
    return textwrap.fill(
        line,
        columns,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        expand_tabs=False,
        replace_whitespace=False,
    )
