"""Reads a suite. Whatever is wrong with it is said with file and line; nothing in it is passed over.

A suite is YAML 1.2: one document, a list of cases. Nothing is mended.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError

from tests.conformance.case import Case, Crystal, Expect, Invocation, Observed, Setup, Step, Strict, Thread

RULE = re.compile(r"(LOOP|CANTRIP|INTENT|ENTITY|CRYSTAL|CALL|CIRCLE|COMP|LOOM|PROD)-\d+|D-0\d\d")
StrictT = TypeVar("StrictT", bound=Strict)
_AT = re.compile(r" - at `(?P<path>[^`]*)`$")
_UNKNOWN = re.compile(r"unknown field `(?P<key>[^`]*)`")
_PART = re.compile(r"\.(?P<key>[^.\[]+)|\[(?P<index>\d+)\]|\[\.\.\.\]")
_CRYSTAL = re.compile(r"(?P<name>\w*crystal\w*)")
_INVOCATIONS = re.compile(r"(?P<name>\w*crystal\w*)_invocations")
_OBSERVATION = re.compile(r"turn_(?P<name>\d+)_observation")
_THREAD = re.compile(r"thread_(?P<name>\d+)")


class SuiteError(Exception):
    """A suite that is not what it must be: `where` is `file:line`."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}")
        self.where = where


def load(path: Path) -> list[Case]:
    """The cases of a suite. Raises `SuiteError`."""
    return load_text(path.read_text(encoding="utf-8"), str(path))


def load_text(text: str, name: str) -> list[Case]:
    """The cases of a suite's text; `name` is what its errors call it. Raises `SuiteError`."""
    try:
        document = YAML(typ="rt", pure=True).load(text)
    except MarkedYAMLError as error:
        line = 1 if error.problem_mark is None else error.problem_mark.line + 1
        raise SuiteError(f"{name}:{line}", f"not YAML: {error.problem}") from error
    if not isinstance(document, CommentedSeq):
        raise SuiteError(f"{name}:1", "a suite is a list of cases")
    return [_Reader(name).case(node) for node in document]


class _Reader:
    def __init__(self, name: str) -> None:
        self._name = name

    def case(self, node: Any) -> Case:
        own = self._mapping(node, {"setup": None, "action": None, "expect": None})
        case = replace(self._struct(own, Case, "where"), where=self._where(node))
        for rule in (case.rule, *case.also):
            if not RULE.fullmatch(rule):
                raise SuiteError(case.where, f"{rule!r} is no rule")
        parts = {"setup": self.setup, "action": self.action, "expect": self.expect}
        case = replace(case, **{key: read(node[key]) for key, read in parts.items() if key in node})
        if (case.setup is None) != (case.expect is None) or (case.setup is None) != (case.action == []):
            raise SuiteError(case.where, "a case has setup, action and expect, or none of them")
        return case

    def setup(self, node: Any) -> Setup:
        own = self._mapping(node, {_CRYSTAL: None})
        crystals = {
            name: None if child is None else self._struct(child, Crystal) for name, child in self._named(node, _CRYSTAL)
        }
        return replace(self._struct(own, Setup, "crystals"), crystals=crystals)

    def action(self, node: Any) -> list[Step]:
        steps = [self._struct(each, Step) for each in (node if isinstance(node, CommentedSeq) else [node])]
        for step, each in zip(steps, node if isinstance(node, CommentedSeq) else [node], strict=True):
            if sum((step.construct_cantrip, step.cast is not None, step.ask is not None)) != 1:
                raise SuiteError(self._where(each), "a step does one thing")
        return steps

    def expect(self, node: Any) -> Expect:
        own = self._mapping(node, {_INVOCATIONS: None, _OBSERVATION: None, _THREAD: None})
        if not node:
            raise SuiteError(self._where(node), "an expect that expects nothing")
        return replace(
            self._struct(own, Expect, "invocations", "observations", "each_thread"),
            invocations={name: self._invocations(child, node) for name, child in self._named(node, _INVOCATIONS)},
            observations={int(n): self._struct(child, Observed) for n, child in self._named(node, _OBSERVATION)},
            each_thread={int(n): self._struct(child, Thread) for n, child in self._named(node, _THREAD)},
        )

    def _invocations(self, node: Any, parent: CommentedMap) -> int | list[Invocation]:
        if isinstance(node, int) and not isinstance(node, bool):
            return int(node)
        if not isinstance(node, CommentedSeq):
            raise SuiteError(self._where(parent), "invocations are a number or a list")
        return [self._struct(each, Invocation) for each in node]

    def _mapping(self, node: Any, apart: dict[Any, None]) -> CommentedMap:
        """The mapping without those keys that are read by themselves."""
        if not isinstance(node, CommentedMap):
            raise SuiteError(self._where(node), "a mapping is needed here")
        own = CommentedMap(
            (key, value)
            for key, value in node.items()
            if not any(key == each if isinstance(each, str) else each.fullmatch(str(key)) for each in apart)
        )
        own._yaml_line_col = node.lc  # the lines of the keys stay those of the file
        return own

    def _named(self, node: CommentedMap, pattern: re.Pattern[str]) -> Iterator[tuple[str, Any]]:
        for key, value in node.items():
            found = pattern.fullmatch(str(key))
            if found is not None:
                yield found["name"], value

    def _struct(self, node: Any, kind: type[StrictT], *apart: str) -> StrictT:
        """The node as a struct. Keys of `apart` are filled by the reader, and unknown in the file."""
        if not isinstance(node, CommentedMap):
            raise SuiteError(self._where(node), "a mapping is needed here")
        for key in apart:
            if key in node:
                raise SuiteError(self._where(node, key), f"unknown key {key!r}")
        try:
            return msgspec.convert(_plain(node), kind)
        except msgspec.ValidationError as error:
            raise self._error(node, str(error)) from None

    def _error(self, node: Any, problem: str) -> SuiteError:
        at = _AT.search(problem)
        keys: list[str | int] = []
        for part in _PART.finditer(at["path"] if at else ""):
            if part["key"] is None and part["index"] is None:
                break
            keys.append(part["key"] or int(part["index"]))
        said = problem[: at.start()] if at else problem
        unknown = _UNKNOWN.search(said)
        where = self._where(node)
        for key in [*keys, *([unknown["key"]] if unknown else [])]:
            where = self._where(node, key) or where
            try:
                node = node[key]
            except (KeyError, IndexError, TypeError):
                break
        path = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).lstrip(".")
        said = f"unknown key {unknown['key']!r}" if unknown else said
        return SuiteError(where, f"{said} in {path}" if path else said)

    def _where(self, node: Any, key: str | int | None = None) -> str:
        lc = getattr(node, "lc", None)
        if lc is None:
            return self._name
        line = lc.line if key is None or lc.data is None or key not in lc.data else lc.data[key][0]
        return f"{self._name}:{(line or 0) + 1}"


def _plain(node: Any) -> Any:
    if isinstance(node, dict):
        return {str(key): _plain(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_plain(each) for each in node]
    for kind in (bool, int, float, str):
        if isinstance(node, kind):
            return kind(node)
    return node
