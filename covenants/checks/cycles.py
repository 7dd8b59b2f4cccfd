"""Cycles: an exchange that would feed itself for ever, unless a route of it says how often it may pass."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping

from branches.manifest import Direction
from covenants.checks.scope import CONSUMED, Line, Scope
from covenants.model import Branch
from covenants.transform import Endpoint

_PEOPLE = "chat"

Graph = Mapping[Endpoint, list[tuple[Endpoint, "Line | None"]]]


def check_cycles(scope: Scope) -> None:
    """Note every cycle in which no route has `max_hops` or asks a person, at its last route, once each."""
    graph = _graph(scope)
    noted: set[frozenset[Endpoint]] = set()
    for line in reversed(scope.lines):
        if line.source is None or _stops(scope, line):
            continue
        for target in line.targets:
            way = _way(graph, target, line.source)
            if way is None or frozenset(way) in noted:
                continue
            noted.add(frozenset(way))
            names = " -> ".join(scope.written(endpoint) for endpoint in (line.source, *way))
            message = f"this closes a cycle that feeds itself: {names}"
            hint = "take one route out, or say how often an exchange may pass: `max_hops: 8`"
            scope.document.add("E212", message, hint, at=line.path)


def inner_effects(branch: Branch) -> dict[str, tuple[str, ...]]:
    """What a branch produces because of what it takes in, by kind.

    A request causes its answers. What answers a request of the branch itself causes nothing new: it ends a wait; nor
    does a chunk. What goes to a chat goes to people, and whether they say anything is up to them. Everything else may
    cause all that the branch produces.
    """
    manifest = branch.manifest
    answers = {answer.kind() for kind in manifest.of(Direction.PRODUCES) for answer in kind.answers}
    produced = tuple(kind.name for kind in manifest.of(Direction.PRODUCES))
    effects: dict[str, tuple[str, ...]] = {}
    for kind in manifest.of(*CONSUMED):
        if kind.answers:
            effects[kind.name] = tuple(answer.kind() for answer in kind.answers)
        elif branch.type != _PEOPLE and kind.name not in answers and not kind.short_lived:
            effects[kind.name] = produced
    return effects


def _graph(scope: Scope) -> Graph:
    graph: dict[Endpoint, list[tuple[Endpoint, Line | None]]] = defaultdict(list)
    for branch in scope.branches.values():
        for cause, effects in inner_effects(branch).items():
            for effect in effects:
                first, second = branch.manifest.get(cause), branch.manifest.get(effect)
                if first is not None and second is not None:
                    graph[Endpoint(branch.name, first)].append((Endpoint(branch.name, second), None))
    for line in scope.lines:
        if line.source is not None and not _stops(scope, line):
            graph[line.source].extend((target, line) for target in line.targets)
    return graph


def _stops(scope: Scope, line: Line) -> bool:
    """Whether an exchange cannot pass here for ever: it is counted, or a person says yes each time."""
    return line.options.max_hops is not None or line.path in scope.approvals


def _way(graph: Graph, start: Endpoint, goal: Endpoint) -> list[Endpoint] | None:
    """The shortest way from one kind to another, both included, or None."""
    before: dict[Endpoint, Endpoint | None] = {start: None}
    queue = deque([start])
    while queue:
        at = queue.popleft()
        if at == goal:
            way = [at]
            while (previous := before[way[-1]]) is not None:
                way.append(previous)
            return way[::-1]
        for following, _ in graph.get(at, ()):
            if following not in before:
                before[following] = at
                queue.append(following)
    return None
