"""Which recorded exchange answers a request, and what is told when none does."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import msgspec

from coven.testing.recording.cassette import Asked, Body, Exchange

Normalise = Callable[[Any], Any]
_MOST_LINES = 80


def same(one: Asked, other: Asked, normalise: Normalise | None) -> bool:
    """Whether they ask the same. The host and the headers do not count."""
    asked = (one.method, one.target) == (other.method, other.target)
    return asked and _comparable(one.body, normalise) == _comparable(other.body, normalise)


def told(asked: Asked, exchanges: Sequence[Exchange], used: set[int], normalise: Normalise | None) -> str:
    """What is said of a request that nothing answers: the nearest one that was recorded, and how it differs."""
    head = f"nothing recorded answers {asked.method} {asked.host}{asked.target}"
    if not exchanges:
        return f"{head}: the cassette is empty."
    again = next((n for n, each in enumerate(exchanges) if same(each.request, asked, normalise)), None)
    if again is not None:
        times = sum(same(each.request, asked, normalise) for each in exchanges)
        return f"{head} once more: exchange {again + 1} has the same request, recorded {times} times and used up."
    wanted = _lines(asked, normalise)
    rows = [_lines(each.request, normalise) for each in exchanges]
    likeness = [difflib.SequenceMatcher(None, row, wanted).ratio() for row in rows]
    nearest = max(range(len(rows)), key=lambda n: (likeness[n], n not in used))
    diff = list(difflib.unified_diff(rows[nearest], wanted, "recorded", "asked now", lineterm="", n=2))
    cut = [f"... and {len(diff) - _MOST_LINES} lines more"] if len(diff) > _MOST_LINES else []
    state = ", which is used already" if nearest in used else ""
    nearest_is = f"The nearest is exchange {nearest + 1} of {len(exchanges)}{state}:"
    return "\n".join([f"{head}. {nearest_is}", *diff[:_MOST_LINES], *cut])


def _comparable(body: Body, normalise: Normalise | None) -> object:
    if body.json is msgspec.UNSET:
        return body
    return body.json if normalise is None else normalise(deepcopy(body.json))


def _lines(asked: Asked, normalise: Normalise | None) -> list[str]:
    body = _comparable(asked.body, normalise)
    shown = msgspec.to_builtins(body) if isinstance(body, Body) else body
    text = msgspec.json.format(msgspec.json.encode(shown, order="deterministic"), indent=2).decode()
    return [f"{asked.method} {asked.target}", *text.split("\n")]
