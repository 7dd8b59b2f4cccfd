"""Whether expectations bite: each one, changed to something else, must be a mismatch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from tests.conformance.case import Case, Expect
from tests.conformance.checks import mismatches
from tests.conformance.story import Story

_NAMES = ("entity_id",)
"""Keys whose values are names of the case's own: another name says the same."""
_ABSENT = ("messages_exclude", "message_count_excludes")
"""Keys whose texts must not be there: what stands in any text takes their place."""


def toothless(case: Case, story: Story) -> list[str]:
    """The expectations that could be others, and nobody would notice."""
    assert case.expect is not None
    expect = msgspec.to_builtins(case.expect, str_keys=True)
    return [path for path, changed in _changed(expect) if not mismatches(replace(case, expect=changed), story)]


def _changed(expect: Any) -> Iterator[tuple[str, Expect]]:
    """The expectation with one value in it changed, for every value."""
    for keys, value in _leaves(expect, ()):
        key = next(each for each in reversed(keys) if isinstance(each, str))
        if key in _NAMES:
            continue
        for other in _others(value, key):
            try:
                yield ".".join(map(str, keys)), msgspec.convert(_with(expect, keys, other), Expect, str_keys=True)
            except msgspec.ValidationError:
                continue
            break


def _leaves(value: Any, keys: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict):
        for name, child in value.items():
            yield from _leaves(child, (*keys, name))
    elif isinstance(value, list) and value:
        for number, child in enumerate(value):
            yield from _leaves(child, (*keys, number))
    else:
        yield keys, value


def _others(value: Any, key: str) -> list[Any]:
    """Values that mean something else; the first that may stand there is taken."""
    if key in _ABSENT:
        return [""]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [value + 1]
    if isinstance(value, str):
        if value.startswith("greater_than"):
            return ["greater_than(1000000000000)"]
        return [f"{value}~", 12345, "circle" if value == "entity" else "entity"]
    return ["~", 12345, ["~"]]


def _with(value: Any, keys: tuple[Any, ...], other: Any) -> Any:
    if not keys:
        return other
    if isinstance(value, dict):
        return {**value, keys[0]: _with(value[keys[0]], keys[1:], other)}
    return [_with(each, keys[1:], other) if n == keys[0] else each for n, each in enumerate(value)]
