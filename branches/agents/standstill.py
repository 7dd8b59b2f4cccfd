"""Standstills: the time of an episode in which people were asked does not count as its own.

An episode stands still while a person is asked in it and all else in it that is under way waits for a person as well.
So a parent stands still while its child does, and while every child of a batch that has not returned yet does; calls
that are made at once are judged in the same way. It is computed from the times at which calls and outcomes were
recorded, and so comes to the same after a restart.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from branches.agents.naming import APPROVAL
from policies import CallTime

Span = tuple[float, float]
Calls = Mapping[str, Sequence[CallTime]]


def due(calls: Iterable[CallTime], scope: str, seconds: float, now: float) -> float | None:
    """When an episode that may take so many seconds of its own is due; None while it stands still.

    `calls` are those of its whole run, `scope` is its own run. It begins with the first call that is made in it.
    """
    inside = _by_scope(calls)
    stood = _standing(inside, scope, now)
    if any(start <= now < end for start, end in stood):
        return None
    return _began(inside, scope, now) + seconds + sum(end - start for start, end in stood if end <= now)


def began(calls: Iterable[CallTime], scope: str, now: float) -> float:
    """When the episode made its first call; now if it has made none."""
    return _began(_by_scope(calls), scope, now)


def _by_scope(calls: Iterable[CallTime]) -> Calls:
    inside: defaultdict[str, list[CallTime]] = defaultdict(list)
    for call in calls:
        inside[call.scope].append(call)
    return inside


def _began(inside: Calls, scope: str, now: float) -> float:
    return min((_span(inside, call, now)[0] for call in inside.get(scope, ())), default=now)


def _span(inside: Calls, call: CallTime, now: float) -> Span:
    """From when to when a call was under way. Nothing is recorded of the beginning of code but its first call."""
    first = min((_span(inside, each, now)[0] for each in inside.get(call.id, ())), default=math.inf)
    start = min(call.made or math.inf, first)
    return (now if start == math.inf else start), (math.inf if call.ended is None else call.ended)


def _standing(inside: Calls, scope: str, now: float) -> list[Span]:
    """When this scope stood still, in order; what still lasts ends at infinity."""
    under_way: defaultdict[float, int] = defaultdict(int)
    waiting: defaultdict[float, int] = defaultdict(int)
    for call in inside.get(scope, ()):
        start, end = _span(inside, call, now)
        asks = call.policy == APPROVAL and call.made > 0
        waits = [(start, end)] if asks else _standing(inside, call.id, now)
        under_way[start] += 1
        under_way[end] -= 1
        for since, until in waits:
            waiting[max(since, start)] += 1
            waiting[max(min(until, end), start)] -= 1
    times = sorted({*under_way, *waiting})
    stood: list[Span] = []
    open_, idle = 0, 0
    for start, end in pairwise(times):
        open_, idle = open_ + under_way[start], idle + waiting[start]
        if open_ and open_ == idle:
            stood.append((start, end))
    return stood
