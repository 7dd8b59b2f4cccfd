"""Coverage: every produced kind goes somewhere, every required kind comes from somewhere, and nothing goes twice."""

from __future__ import annotations

from collections import defaultdict

from branches.manifest import Direction
from covenants.checks.scope import BRANCHES, COVENANT, Line, Scope
from covenants.grammar import NOWHERE
from covenants.questions import released_name
from covenants.transform import Endpoint


def check_coverage(scope: Scope) -> None:
    """Run all checks of this file."""
    _check_manifests(scope)
    _check_produced(scope)
    _check_required(scope)
    _check_doubles(scope)
    _check_names(scope)
    _check_lifetimes(scope)


def _check_manifests(scope: Scope) -> None:
    """No kind's name means two things: not in one manifest, and not in two that are used together."""
    owner: dict[str, tuple[object, str]] = {}
    for branch in {branch.type: branch for branch in scope.branches.values()}.values():
        for kind in branch.manifest.kinds:
            entry, type = owner.setdefault(kind.name, (kind.entry, branch.type))
            first = branch.manifest.get(kind.name)
            if entry is not kind.entry or first is not kind:
                message = f"the kind `{kind.name}` is declared twice, by {type} and by {branch.type}"
                hint = "rename one of the two entry classes"
                scope.document.add("E210", message, hint, at=(*BRANCHES, branch.name), key=True)


def _check_produced(scope: Scope) -> None:
    for endpoint in scope.endpoints(Direction.PRODUCES):
        if endpoint.kind.occasional or scope.routes_from(endpoint) or _is_mentioned(scope, endpoint):
            continue
        name = scope.written(endpoint)
        message = f"`{name}` is produced and goes nowhere"
        hint = f"add `- {name} -> …`, or `- {name} -> nowhere` if that is meant"
        scope.document.add("E201", message, hint, at=COVENANT, key=True)


def _check_required(scope: Scope) -> None:
    reached = {end for line in scope.lines for end in (*line.targets, *([line.fault] if line.fault else []))}
    chats = any(branch.type == "chat" for branch in scope.branches.values())
    for endpoint in scope.endpoints(Direction.REQUIRES):
        if not chats and scope.branches[endpoint.instance].type == "agents":
            continue  # a coven without a chat is asked through the command line, HTTP or ACP
        if endpoint not in reached and not _is_mentioned(scope, endpoint):
            name = scope.written(endpoint)
            message = f"`{name}` has no source, and without it {endpoint.instance} has nothing to do"
            source = _free_source(scope, endpoint)
            scope.document.add("E203", message, f"add `- {source} -> {name}`", at=COVENANT, key=True)


def _free_source(scope: Scope, target: Endpoint) -> str:
    """What another instance produces and nobody routes, for the hint, or else what is silenced.

    Requests become requests, and what is none does not; of several it is the one with the most fields in common.
    """
    wanted = set(target.kind.entry.__struct_fields__)
    free: list[tuple[bool, int, str]] = []
    for endpoint in scope.endpoints(Direction.PRODUCES):
        kind, lines = endpoint.kind, scope.routes_from(endpoint)
        if endpoint.instance == target.instance or kind.short_lived or bool(kind.answers) != bool(target.kind.answers):
            continue
        if kind.occasional:  # what arises only now and then is not what an instance lives on
            continue
        if all(line.silent for line in lines):
            free.append((not lines, len(wanted & set(kind.entry.__struct_fields__)), scope.written(endpoint)))
    return max(free, key=lambda each: each[:2], default=(False, 0, "…"))[2]


def _check_doubles(scope: Scope) -> None:
    by_source: dict[Endpoint, list[Line]] = defaultdict(list)
    for line in scope.lines:
        if line.source is not None:
            by_source[line.source].append(line)
    for source, lines in by_source.items():
        name = scope.written(source)
        silent = [line for line in lines if line.silent]
        if silent and len(lines) > 1:
            other = next((line for line in lines if not line.silent), lines[0])
            later = max(silent[-1], other, key=_number)
            first = min(silent[0], other, key=_number)
            message = f"`{name}` has a route and `{NOWHERE}`; the other is in line {_line(scope, first)}"
            if len(silent) == len(lines):
                message = f"`{name}` is sent to `{NOWHERE}` twice; first in line {_line(scope, first)}"
            scope.document.add("E202", message, "keep one of them", at=later.path)
            continue
        bare = [line for line in lines if line.options.when is None]
        if bare and len(lines) > 1:
            culprit = bare[-1] if len(bare) > 1 else bare[0]
            other = next(line for line in lines if line is not culprit)
            message = f"`{name}` is also routed in line {_line(scope, other)}, and both routes match"
            hint = f"give each a `when:`, or write one route: `{name} -> A, B`"
            scope.document.add("E204", message, hint, at=culprit.path)


def _check_names(scope: Scope) -> None:
    first: dict[str, Line] = {}
    for line in scope.lines:
        if not line.complete or line.silent:
            continue
        asks = line.path in scope.approvals
        names = [name for each, _ in line.effects for name in (each, *([released_name(each)] if asks else []))]
        for identity in names:
            other = first.setdefault(identity, line)
            if other is not line:
                message = f"this route has the same name as the one in line {_line(scope, other)}: `{identity}`"
                scope.document.add("E205", message, "give it one of its own: `name: …`", at=line.path)
                break


def _check_lifetimes(scope: Scope) -> None:
    """Short-lived kinds have a journal of their own: what is kept cannot go there, nor come from there."""
    for line in scope.lines:
        for target in (*line.targets, *([line.fault] if line.fault else [])):
            if line.source is not None and target.kind.short_lived is not line.source.kind.short_lived:
                short, kept = (target, line.source) if target.kind.short_lived else (line.source, target)
                message = f"`{short.kind.name}` is short-lived and `{kept.kind.name}` is kept: no route joins them"
                hint = "chunks go to chunks; what is to be kept comes from the final message"
                scope.document.add("E217", message, hint, at=line.path)


def _is_mentioned(scope: Scope, endpoint: Endpoint) -> bool:
    return (endpoint.instance, endpoint.kind.name) in scope.mentioned


def _number(line: Line) -> int:
    number = line.path[-1]
    assert isinstance(number, int)
    return number


def _line(scope: Scope, line: Line) -> int:
    return scope.document.place_of(line.path).line
