"""Requests and their answers: whoever asks must hear, whatever happens."""

from __future__ import annotations

from functools import partial

from branches.agents.entries import AgentToolCall
from covenants.checks.circles import circle_gates
from covenants.checks.scope import Line, Scope
from covenants.conversions import conversion
from covenants.transform import Endpoint


def check_answers(scope: Scope) -> None:
    """Run all checks of this file."""
    for line in scope.lines:
        if line.source is None:
            continue
        for target in line.targets:
            _check_way_home(scope, line, line.source, target)
        if line.silent:
            _check_silenced(scope, line, line.source)
        elif line.source.kind.answers and line.fault is None and line.options.fault is None:
            _check_fault(scope, line, line.source)


def _check_way_home(scope: Scope, line: Line, asking: Endpoint, request: Endpoint) -> None:
    """All answers of the request must be routed to an answer of whoever asked, if it is one who waits."""
    homes = {answer.kind() for answer in asking.kind.answers}
    if not homes:
        return
    for answer in request.kind.answers:
        kind = scope.branches[request.instance].manifest.get(answer.kind())
        if kind is None or (request.instance, kind.name) in scope.mentioned:
            continue
        lines = scope.routes_from(Endpoint(request.instance, kind))
        ends = {target for other in lines for target in other.targets}
        if any(end.instance == asking.instance and end.kind.name in homes for end in ends):
            continue
        if any(not other.complete for other in lines):
            continue
        name = scope.written(Endpoint(request.instance, kind))
        best = max(homes, key=partial(_alike, kind.name))
        home = scope.written(_endpoint(scope, asking.instance, best))
        message = f"the answer `{name}` to `{scope.written(request)}` does not come home: the caller waits for ever"
        at = lines[0].path if lines else line.path
        scope.document.add("E211", message, f"add `- {name} -> {home}`", at=at)
        scope.mentioned.add((request.instance, kind.name))


def _check_silenced(scope: Scope, line: Line, source: Endpoint) -> None:
    """Tool calls to nowhere, while the circle has gates that only another branch can serve."""
    branch = scope.branches[source.instance]
    if source.kind.entry is not AgentToolCall:
        return
    served = [gate for gate in circle_gates(branch) if gate in scope.spells()]
    if served:
        name = scope.written(source)
        message = (
            f"`{name}` goes nowhere, but the circle of {branch.name} has gates of Spellcasting: {', '.join(served)}"
        )
        hint = f"write `- {name} -> SpellInvocation`, or take the gates out"
        scope.document.add("E213", message, hint, at=line.path)


def _check_fault(scope: Scope, line: Line, source: Endpoint) -> None:
    """A request that can fail on its way, with nobody told: it becomes a dead letter, and the caller waits."""
    made = [conversion(source.kind.entry, target.kind.entry, {}) for target in line.targets]
    fails = line.options.via is not None or any(each is not None and each.may_fail for each in made)
    if not fails:
        return
    faults = [answer.kind() for answer in source.kind.answers if {"error", "code"} <= set(answer.__struct_fields__)]
    if faults:
        name = scope.written(_endpoint(scope, source.instance, faults[0]))
        message = f"when `{scope.written(source)}` cannot be made into its target, nobody hears of it: the caller waits"
        scope.warn("W502", message, f"write the long form, with `fault: {name}`", at=line.path)


def _endpoint(scope: Scope, instance: str, kind: str) -> Endpoint:
    found = scope.branches[instance].manifest.get(kind)
    assert found is not None
    return Endpoint(instance, found)


def _alike(left: str, right: str) -> int:
    """How many letters two names have in common at their end."""
    count = 0
    while count < min(len(left), len(right)) and left[-1 - count] == right[-1 - count]:
        count += 1
    return count
