"""Top-level declarations that can be made again: `const`, `let` and `class` become `var` before the engine sees them.

A script's `const x = f()` that fails leaves `x` dead for ever, and a second `let x` in a later turn is an error. Code
that is written turn by turn needs neither. Only declarations at the top level are touched, and a line keeps its number.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<number>\.?[0-9](?:[eE][+-]|[\w.])*)
    |(?P<name>[A-Za-z_$\x80-\U0010ffff#@][\w$\x80-\U0010ffff]*)
    |(?P<template>`)
    |(?P<open>[({\[])
    |(?P<close>[)}\]])
    |(?P<slash>/)
    |(?P<arrow>=>)
    |(?P<other>\+\+|--|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_REGEX = re.compile(r"/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[A-Za-z]*")
_TEMPLATE = re.compile(r"(?:[^`\\$]|\\.|\$(?!\{))*(`|\$\{)", re.DOTALL)
_BEFORE_VALUE_WORDS = """
await case delete do else in instanceof new of return throw typeof void yield let const var
"""
_BEFORE_VALUE = frozenset(_BEFORE_VALUE_WORDS.split())
_HEADED = frozenset(("if", "while", "for", "with"))
_BINDING = re.compile(r"\s*(?:/\*.*?\*/\s*)*[\w$\[{\x80-\U0010ffff]", re.DOTALL)
_OPERATOR = re.compile(r"\s+(?:in|instanceof|of)\b")
_BARE = re.compile(r"\s+(?:[A-Za-z_$][\w$]*\s*,\s*)*[A-Za-z_$][\w$]*(?=[^\S\n]*(?:;|$|\n\s*[^\s=,]))")
_CLASS = re.compile(r"\s+([A-Za-z_$][\w$]*)")
_DECLARES = re.compile(r"\b(?:const|let|class)\b")


def redeclarable(code: str) -> tuple[str, bool]:
    """The code with its top-level declarations as `var`, and whether it could be followed: else it is as it was."""
    if not _DECLARES.search(code):
        return code, True
    edits = _Reader(code).edits()
    if edits is None:
        return code, False
    pieces: list[str] = []
    at = 0
    for start, end, text in sorted(edits):
        pieces += (code[at:start], text)
        at = end
    return "".join((*pieces, code[at:])), True


class _Reader:
    """Follows brackets, strings, templates, comments and regular expressions, and notes what to change."""

    def __init__(self, code: str) -> None:
        self._code = code
        self._at = 0
        self._stack: list[tuple[str, bool]] = []  # an open bracket, and whether a regular expression may follow its end
        self._value = False  # whether what was read last ends a value, so that `/` divides
        self._statement = True  # whether a statement may begin here
        self._line = False  # whether a line ended since the last token
        self._last = ""
        self._in_class = False  # whether the body of a top-level class has still to end
        self._edits: list[tuple[int, int, str]] = []

    def edits(self) -> list[tuple[int, int, str]] | None:
        while self._at < len(self._code):
            match = _TOKEN.match(self._code, self._at)
            if match is None or not self._take(match):
                return None
        return None if self._stack else self._edits

    def _take(self, match: re.Match[str]) -> bool:
        kind, text, start = match.lastgroup, match.group(), match.start()
        self._at = match.end()
        if kind == "space":
            self._line = self._line or "\n" in text
            return True
        began = self._statement or (self._line and (self._value or self._last == ")"))
        self._statement = False
        line, self._line = self._line, False
        followed = True
        if kind == "name":
            self._name(text, start, began)
        elif kind in ("string", "number"):
            self._value = True
        elif kind == "template":
            followed = self._template()
        elif kind == "open":
            self._open(text)
        elif kind == "close":
            followed = self._close(text)
        elif kind == "slash" and not self._value:
            followed = self._regex(start)
        elif text in ("++", "--"):
            self._value = self._value and not line
        else:
            self._value = False
            self._statement = text == ";"
        self._last = text
        return followed

    def _name(self, text: str, start: int, began: bool) -> None:
        member = self._last in (".", "?.")
        self._value = member or text not in _BEFORE_VALUE
        if self._stack or not began or member:
            return
        if text in ("const", "let") and _BINDING.match(self._code, self._at):
            if _OPERATOR.match(self._code, self._at):
                return
            self._edits.append((start, self._at, "var" if text == "let" else "var  "))
            bare = _BARE.match(self._code, self._at)
            if bare is not None:  # declared again without a value it begins anew, which `var` alone would not do
                names = [name.strip() for name in bare.group().split(",")]
                self._edits.append((bare.start(), bare.end(), " " + ", ".join(f"{name} = void 0" for name in names)))
        elif text == "class":
            named = _CLASS.match(self._code, self._at)
            if named and named.group(1) != "extends":
                self._edits.append((start, start, f"var {named.group(1)} = "))
                self._in_class = True

    def _open(self, text: str) -> None:
        headed = text == "(" and self._last in _HEADED
        block = text == "{" and (not self._value or self._last == ")")
        self._stack.append((text, headed or block))
        self._value = False
        self._statement = text == "{"

    def _close(self, text: str) -> bool:
        if not self._stack:
            return False
        opened, regex_follows = self._stack.pop()
        if opened == "${":
            if text != "}":
                return False
            return self._template()
        if opened + text not in ("()", "{}", "[]"):
            return False
        self._value = not regex_follows
        self._statement = text == "}"
        if text == "}" and self._in_class and not self._stack:
            self._edits.append((self._at, self._at, ";"))
            self._in_class = self._value = False
        return True

    def _regex(self, start: int) -> bool:
        match = _REGEX.match(self._code, start)
        if match is None:
            return False
        self._at, self._value = match.end(), True
        return True

    def _template(self) -> bool:
        match = _TEMPLATE.match(self._code, self._at)
        if match is None:
            return False
        self._at = match.end()
        if match.group(1) == "`":
            self._value = True
        else:
            self._stack.append(("${", False))
            self._value = False
        return True
