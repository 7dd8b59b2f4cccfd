"""What is wrong with a configuration: a value with a stable code, a place, and the line to add or change."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from covenants.leaks import redact


class Severity(StrEnum):
    """Errors keep a coven from starting, warnings do not."""

    ERROR = "error"
    WARNING = "warning"


CODES: dict[str, str] = {
    "E101": "the file cannot be read",
    "E102": "the file is not text",
    "E103": "the file is empty",
    "E104": "a tab stands where YAML wants spaces",
    "E105": "this is no YAML",
    "E106": "a key stands twice",
    "E107": "an alias points into itself",
    "E108": "the file is too large",
    "E109": "a kind of YAML value that is not used here",
    "E110": "a key that is not known",
    "E111": "a key is missing",
    "E112": "a value of the wrong type",
    "E113": "a name that cannot be used",
    "E114": "a branch that is not known",
    "E115": "a leaf that is not known",
    "E116": "a route that cannot be read",
    "E117": "keys that do not go together",
    "E201": "a produced kind has neither a route nor `nowhere`",
    "E202": "a kind has both a route and `nowhere`",
    "E203": "a required kind has no source",
    "E204": "two routes that both match",
    "E205": "two routes of one name",
    "E206": "a kind that is in no manifest",
    "E207": "a branch instance that is not configured",
    "E208": "a kind that routes may not take from here or bring here",
    "E209": "a kind that stands in two journals",
    "E210": "a kind that two manifests declare",
    "E211": "an answer has no way home",
    "E212": "a cycle that is not declared",
    "E213": "tool calls go nowhere although the circle has gates of Spellcasting",
    "E214": "a gate that is not known",
    "E215": "a gate whose substrate is not configured",
    "E216": "a circle without an end",
    "E217": "a route between a short-lived kind and a kept one",
    "E218": "an approval that nobody can be asked for",
    "E219": "a sampling option that the model does not take",
    "E220": "children with a crystal that is not named",
    "E221": "an approval that could be asked for in several chats",
    "E222": "an approval of what an agent waits for",
    "E223": "an approval of what has been shown before",
    "E301": "a required field gets no value",
    "E302": "a value of a type that does not fit",
    "E303": "a field that is not known",
    "E304": "an expression that is no CEL",
    "E305": "a name in an expression that is not known",
    "E306": "a condition that is neither true nor false",
    "E307": "an id that comes from text",
    "E401": "a secret in clear",
    "E402": "an environment variable that is not set",
    "E403": "a `${…}` that names no variable",
    "E404": "a file of user code that is missing",
    "E405": "a file of user code that cannot be loaded",
    "E406": "a name that the file of user code does not have",
    "E407": "user code of the wrong shape",
    "W501": "the lethal trifecta",
    "W502": "a request whose failure reaches nobody",
}
"""Every code with what it means; `docs/checks.md` has an example of wrong and right for each."""


class Problem(msgspec.Struct, frozen=True, order=True):
    """One thing that is wrong. `line` and `column` count from 1; `hint` is the line to add or change."""

    path: str
    line: int
    column: int
    code: str
    message: str
    hint: str = ""
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        hint = "".join(f"\n    {line}" for line in self.hint.splitlines())
        return f"{self.path}:{self.line}:{self.column}: {self.code} {self.message}{hint}"


def nearest(name: str, known: Iterable[str], *, likeness: float = 0.6) -> str | None:
    """The known name that is most like this one, if any is like it at all. `likeness` is from 0 to 1."""
    names = list(known)
    by_fold = {known_name.casefold(): known_name for known_name in names}
    if name.casefold() in by_fold:
        return by_fold[name.casefold()]
    found = difflib.get_close_matches(name.casefold(), by_fold, n=1, cutoff=likeness)
    return by_fold[found[0]] if found else None


def suggest(name: str, known: Sequence[str]) -> str:
    """A hint: the nearest name, else all there are."""
    near = nearest(name, known)
    if near is not None:
        return f"did you mean `{near}`?"
    return f"there are: {', '.join(known)}" if known else "there are none"


def shown(value: Any, limit: int = 60) -> str:
    """A value of the file, short enough for a message, on one line and without control characters."""
    text = " ".join(one_line(str(value)).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def one_line(text: str) -> str:
    """The text without line breaks and control characters, and without anything that looks like a secret."""
    return "".join(char if char.isprintable() else " " if char.isspace() else "�" for char in redact(text))
