"""The few plain phrases that the rehearsal crystal understands, as gate calls."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

LIST, READ, WRITE, RUN = "fs.list_dir", "fs.read_text", "fs.write_text", "shell.exec"
LONGEST = 5_000
"""Characters; what is longer was not typed by somebody who tries the phrases."""


class Wish(NamedTuple):
    """One thing that was asked for: the gate that does it, and its arguments."""

    gate: str
    arguments: dict[str, Any]


_QUOTED = r"""(?<!\w)(?:'[^']*'|"[^"]*"|`[^`]*`|\u201c[^\u201d]*\u201d|\u2018[^\u2019]*\u2019)(?!\w)"""
_VERBS = (
    r"(?:what|which|list|show|ls|dir|read|open|cat|print|write|save|put|run|execute|"
    r"(?:overwrite|replace)(?!\s+(?:it|that)\b))\b(?![./\\-])"
)
_POLITE = r"(?:(?:please|now|then|also|can you|could you|would you|will you)[,\s]+)*"
_BETWEEN_WISHES = re.compile(rf"(?<!\s)(?:\s*[,;]\s*|\s+)(?:and\s+)?(?:then\s+)?(?:and\s+)?(?={_POLITE}{_VERBS})", re.I)
_JOINT = re.compile(r"[,;]|\b(?:and|then)\b|\n", re.I)
_BETWEEN_PATHS = re.compile(rf"({_QUOTED})|\s*,\s*(?:and\s+)?|\s+and\s+", re.I)
_PATH = rf"(?:{_QUOTED}|\S+)"

_THINGS = r"(?:files?|folders?|documents?|contents?)"
_PLACE = rf"(?:here|there|(?:in|inside|of)\s+(?:the\s+(?:folder|directory)\s+)?(?P<path>{_PATH}))"
_LISTINGS = tuple(
    re.compile(pattern, re.I)
    for pattern in (
        rf"(?:what|which)(?:['\u2019]s|\s+is|\s+are)?(?:\s+(?:all\s+)?(?:the\s+)?{_THINGS})?"
        rf"(?:\s+(?:is|are|do\s+(?:i|you|we)\s+have))?(?:\s+there)?\s+{_PLACE}",
        rf"(?:what|which)\s+{_THINGS}(?:\s+(?:are\s+there|do\s+(?:i|you|we)\s+have))?",
        rf"(?:list|show)(?:\s+me)?(?:\s+all)?(?:\s+the)?\s+{_THINGS}(?:\s+{_PLACE})?",
        rf"(?:list|ls|dir)(?:\s+(?:here|(?:the\s+(?:folder|directory)\s+)?(?P<path>{_PATH})))?",
    )
)
_HERE = {"here", "there", "the workspace", "workspace", "this", "it"}
_ASKING_FOR_TEXT = re.compile(
    rf"what\s+(?:does|do)\s+(?P<path>{_PATH})\s+say|what(?:['\u2019]s|\s+is)\s+in\s+(?P<file>\S+\.\w+|{_QUOTED})", re.I
)
_READING = re.compile(
    r"(?:read|open|cat|show|print)(?:\s+me)?(?:\s+(?:the\s+)?(?:files?\b|contents?\s+of\b))?\s+(?P<paths>.+)",
    re.I | re.S,
)
_WRITING = re.compile(
    rf"(?:write|save|put)\s+(?P<text>{_QUOTED}|.+)\s+(?:to|into|in|as)\s+(?:the\s+file\s+)?(?P<path>{_PATH})(?P<rest>.*)",
    re.I | re.S,
)
_REPLACING = re.compile(
    rf"(?:overwrite|replace)\s+(?:the\s+file\s+)?(?P<path>{_PATH})\s+(?:with|by)\s+(?P<text>{_QUOTED}|.+)", re.I | re.S
)
_RUNNING = re.compile(r"(?:run|execute)\s+(?:the\s+(?:command|program)\s+)?(?P<cmd>.+)", re.I | re.S)
_NAMED = re.compile(r"[^\n]{1,80}?:[ \t]+")
_OVERWRITING = re.compile(r"overwrit|replac", re.I)


def understand(text: str) -> list[Wish] | None:
    """What the text asks for, in order; None when any part of it is not understood, or it is very long.

    A chat with several people puts a name before what each of them says.
    """
    if len(text) > LONGEST:
        return None
    found, named = _wishes(text), _NAMED.match(text)
    return found if found is not None or named is None else _wishes(text[named.end() :])


def _wishes(text: str) -> list[Wish] | None:
    wishes: list[Wish] = []
    for clause in _clauses(text):
        understood = _understand(clause)
        if understood is None:
            return None
        wishes.extend(understood)
    return wishes or None


def _clauses(text: str) -> Iterator[str]:
    """The text cut where another wish begins; what stands in quotes is never cut."""
    quotes = [match.span() for match in re.finditer(_QUOTED, text)]
    start = 0
    for match in _BETWEEN_WISHES.finditer(text):
        inside = any(left < match.end() <= right for left, right in quotes)
        if not inside and _JOINT.search(match.group()):
            yield text[start : match.start()]
            start = match.end()
    yield text[start:]


def _understand(clause: str) -> list[Wish] | None:
    clause = re.sub(rf"^\s*{_POLITE}", "", clause, flags=re.I).strip()
    spoken = re.sub(r"(?<!\s)[,\s]+please$", "", clause.rstrip("?! "), flags=re.I)
    if match := _RUNNING.fullmatch(clause):
        return [Wish(RUN, {"cmd": _bare(match["cmd"].strip())})]
    if match := _REPLACING.fullmatch(spoken):
        return [_write(match["path"], match["text"], overwrite=True)]
    if match := _WRITING.fullmatch(spoken):
        overwrite = _OVERWRITING.search(match["rest"]) is not None
        if match["rest"].strip(" .,;") and not overwrite:  # the rest of a name without its quotes, for example
            return None
        return [_write(match["path"], match["text"], overwrite=overwrite)]
    if match := _ASKING_FOR_TEXT.fullmatch(spoken):
        return [_read(match["path"] or match["file"])]
    for pattern in _LISTINGS:
        if match := pattern.fullmatch(spoken):
            return [_list(match.groupdict().get("path"))]
    if match := _READING.fullmatch(spoken):
        return [_read(path) for path in _paths(match["paths"])]
    return None


def _list(found: str | None) -> Wish:
    path = "." if found is None or found.lower() in _HERE else _path(found)
    return Wish(LIST, {"path": path})


def _read(found: str) -> Wish:
    return Wish(READ, {"path": _path(found)})


def _write(found: str, text: str, *, overwrite: bool) -> Wish:
    arguments: dict[str, Any] = {"path": _path(found), "text": _bare(text)}
    if overwrite:
        arguments["overwrite"] = True
    return Wish(WRITE, arguments)


def _paths(text: str) -> list[str]:
    """Paths that stand in a row: `a.txt, b.txt and 'my notes.txt'`."""
    parts, start = list[str](), 0
    for match in _BETWEEN_PATHS.finditer(text):
        if match[1] is None:
            parts.append(text[start : match.start()])
            start = match.end()
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


def _path(text: str) -> str:
    """A path without its quotes, or without the mark that ends the sentence."""
    bare = _bare(text)
    return bare if bare != text or set(text) <= set("./") else text.rstrip(".,;:?!")


def _bare(text: str) -> str:
    return text[1:-1] if re.fullmatch(_QUOTED, text) else text
