"""A YAML file as plain values, each with its place in the text."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Any, NamedTuple

from covenants.problems import Problem, Severity, one_line

Path = tuple[str | int, ...]


class Place(NamedTuple):
    """A position in the text, both counted from 1."""

    line: int
    column: int


class Span(NamedTuple):
    """Where a value stands: its offsets in the text, and whether it is a `|` block."""

    start: int
    end: int
    literal: bool = False


class Document:
    """A parsed file. `root` is made of dict, list, str, int, float, bool and None only.

    `places` are found by path, e.g. `("branches", "chat", "leaf")`; `problems` are those that parsing found.
    """

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text
        self.root: Any = None
        self.problems: list[Problem] = []
        self.spans: dict[Path, Span] = {}
        self.keys: dict[Path, Span] = {}
        self._lines = [match.end() for match in re.finditer("\n", text)]

    def __repr__(self) -> str:
        return f"<Document {self.name} {len(self.spans)} values, {len(self.problems)} problems>"

    def copy(self) -> Document:
        """The same document with a list of problems of its own."""
        other = Document(self.name, self.text)
        other.root, other.problems = self.root, list(self.problems)
        other.spans, other.keys = self.spans, self.keys
        return other

    def place(self, offset: int) -> Place:
        """Line and column of an offset in the text."""
        low = bisect_right(self._lines, offset)
        start = self._lines[low - 1] if low else 0
        return Place(low + 1, offset - start + 1)

    def place_of(self, path: Path, *, key: bool = False, inside: tuple[str, int] | None = None) -> Place:
        """Where the value of a path stands, or its key; of a path that is not in the file, where its parent stands.

        `inside` is a text that the value holds, and an offset in it.
        """
        while path not in self.spans and path:
            path, key, inside = path[:-1], True, None
        if key and path in self.keys:
            return self.place(self.keys[path].start)
        span = self.spans.get(path)
        if span is None:
            return Place(1, 1)
        return self.place(span.start if inside is None else self._inside(span, *inside))

    def has_problem_in(self, path: Path) -> bool:
        """Whether a problem was found somewhere in the value of this path."""
        span = self.spans.get(path)
        if span is None:
            return False
        first, last = self.place(span.start), self.place(span.end)
        return any(first <= (problem.line, problem.column) <= last for problem in self.problems)

    def _inside(self, span: Span, value: str, offset: int) -> int:
        raw = self.text[span.start : span.end]
        if span.literal:
            before, _, _ = value[:offset].rpartition("\n")
            number = value[:offset].count("\n")
            lines = raw.splitlines(keepends=True)
            if number + 1 < len(lines):
                line = value.split("\n")[number]
                indent = lines[number + 1].find(line)
                if indent >= 0:
                    column = offset - (len(before) + 1 if number else 0)
                    return span.start + sum(map(len, lines[: number + 1])) + indent + column
            return span.start
        start = raw.find(value)
        return span.start + (start + offset if start >= 0 else 0)

    def add(
        self,
        code: str,
        message: str,
        hint: str = "",
        *,
        at: Path | Place = (),
        key: bool = False,
        inside: tuple[str, int] | None = None,
        severity: Severity = Severity.ERROR,
    ) -> None:
        """Note a problem at a path or a place. What looks like a secret is taken out of the message."""
        place = at if isinstance(at, Place) else self.place_of(at, key=key, inside=inside)
        message, hint = one_line(message), "\n".join(map(one_line, hint.split("\n")))
        problem = Problem(self.name, place.line, place.column, code, message, hint, severity)
        if problem not in self.problems:
            self.problems.append(problem)
