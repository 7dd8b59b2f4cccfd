"""Circles: their gates exist and are served, and every episode comes to an end."""

from __future__ import annotations

from typing import Any, cast

from branches.agents.crystal import Sampling
from branches.agents.gates import ASK_PERSON, CALL_AGENT, CALL_AGENT_BATCH, DONE, canonical
from branches.agents.options import AgentsOptions
from branches.agents.wards import resolve
from covenants.checks.scope import BRANCHES, Scope
from covenants.document import Path
from covenants.model import Branch
from covenants.problems import nearest, shown, suggest
from covenants.transform import Endpoint
from covenants.usercode import UserCodeError, load_object

_ASKING = "ApprovalAsked"
_BUILT_IN = (DONE.name, CALL_AGENT.name, CALL_AGENT_BATCH.name, ASK_PERSON.name)


def circle_gates(branch: Branch) -> tuple[str, ...]:
    """The gates of an agents instance."""
    options = branch.options
    return options.circle.gates if isinstance(options, AgentsOptions) else ()


def approved_gates(branch: Branch) -> tuple[str, ...]:
    """The gates of an agents instance that wait for a person's approval."""
    options = branch.options
    return cast("tuple[str, ...]", getattr(options.circle, "approve", ())) if isinstance(options, AgentsOptions) else ()


def check_circles(scope: Scope) -> None:
    """Run all checks of this file."""
    for branch in scope.branches.values():
        if isinstance(branch.options, AgentsOptions):
            path = (*BRANCHES, branch.name, "circle")
            for key, gates in (("gates", circle_gates(branch)), ("approve", approved_gates(branch))):
                for gate in gates:
                    _check_gate(scope, branch, gate, _path_of(scope, (*path, key), gate))
            _check_end(scope, branch, branch.options, path)
            _check_approvals(scope, branch, path)
            _check_reward(scope, branch.options, (*path, "reward"))
            _check_sampling(scope, branch, branch.options)
            _check_children(scope, branch, branch.options)


def _check_gate(scope: Scope, branch: Branch, gate: str, path: Path) -> None:
    if canonical(gate) in _BUILT_IN:
        return
    spells = scope.spells()
    serving = _serving(scope, branch)
    if gate in spells:
        substrate = spells[gate].substrate()
        if not any(gate in other.spells for other in serving):
            where = serving[0].name if serving else "spellcasting"
            message = f"the gate `{gate}` needs the substrate `{substrate}`, which is not configured"
            scope.document.add("E215", message, f"add `{substrate}: …` under `{where}:`", at=path)
        return
    if gate.partition(".")[0] in scope.unread:
        return
    known = [*_BUILT_IN, *spells]
    near = nearest(gate, known)
    hint = f"did you mean `{near}`?" if near else f"there are: {', '.join(known)}"
    scope.document.add("E214", f"there is no gate `{shown(gate)}`", hint, at=path)


def _serving(scope: Scope, branch: Branch) -> list[Branch]:
    """The spellcasting instances that this one's calls reach; all of them, as long as it has no route to any."""
    all_of_them = [other for other in scope.branches.values() if other.type == "spellcasting"]
    reached = {
        target.instance
        for line in scope.lines
        if line.source is not None and line.source.instance == branch.name and line.source.kind.answers
        for target in line.targets
    }
    return [other for other in all_of_them if other.name in reached] or all_of_them


def _check_end(scope: Scope, branch: Branch, options: AgentsOptions, path: Path) -> None:
    if DONE.name not in options.circle.gates:
        message = f"the circle of {branch.name} has no gate `{DONE.name}`: nothing can end an episode"
        scope.document.add("E216", message, f"add `{DONE.name}` to the gates", at=(*path, "gates"))
    if not resolve(options.circle.wards).truncates and not scope.document.has_problem_in((*path, "wards")):
        message = f"the circle of {branch.name} has no ward that ends an episode"
        scope.document.add("E216", message, "add `wards: [{max_turns: 40}]`", at=(*path, "wards"))


def _check_approvals(scope: Scope, branch: Branch, path: Path) -> None:
    """An approval needs somebody who can be asked: without a route there, the entity would wait for ever."""
    asking = [gate for gate in circle_gates(branch) if canonical(gate) == ASK_PERSON.name] + list(
        approved_gates(branch)
    )
    kind = branch.manifest.get(_ASKING)
    if not asking or kind is None:
        return
    if not any(line.targets or not line.complete for line in scope.routes_from(Endpoint(branch.name, kind))):
        message = f"`{shown(asking[0])}` waits for a person, and nobody is asked: `{_ASKING}` goes to no chat"
        hint = f"add `- {_ASKING} -> ChatQuestion` and `- ChatAnswer -> ApprovalGiven`"
        key = "approve" if approved_gates(branch) else "gates"
        scope.document.add("E218", message, hint, at=(*path, key), key=True)


def _check_reward(scope: Scope, options: AgentsOptions, path: Path) -> None:
    """What scores turns is a function of the user's."""
    if options.circle.reward is not None:
        try:
            if not callable(load_object(options.circle.reward, scope.base)):
                message = f"`{shown(options.circle.reward)}` is no function"
                scope.document.add("E407", message, "name a function of one argument, the turn", at=path)
        except UserCodeError as error:
            scope.document.add(error.code, str(error), error.hint, at=path)


def _check_sampling(scope: Scope, branch: Branch, options: AgentsOptions) -> None:
    """What the configured model would not be sent is refused: it would be missing without a word."""
    for leaf in (*branch.leaves.values(), *branch.crystals.values()):
        if leaf.info.options is not None and leaf.options is None:
            continue  # they are no options of it, which is said elsewhere
        for name in sorted(leaf.info.untaken_sampling(leaf.options)):
            if getattr(options.call.sampling, name) != getattr(Sampling(), name):
                path = (*BRANCHES, branch.name, "call", "sampling", name)
                message = f"the model of the crystal `{leaf.info.name}` does not take `{name}`"
                scope.document.add("E219", message, "remove it, or choose another model", at=path, key=True)


def _check_children(scope: Scope, branch: Branch, options: AgentsOptions) -> None:
    """The crystals of children are among those that are named."""
    path = (*BRANCHES, branch.name)
    for number, name in enumerate(options.child_crystals):
        if name not in options.crystals:
            message = f"there is no crystal `{shown(name)}` under `crystals`"
            hint = f"{suggest(name, tuple(options.crystals))}; or add `{shown(name)}: …` there"
            scope.document.add("E220", message, hint, at=(*path, "child_crystals", number))


def _path_of(scope: Scope, path: Path, gate: str) -> Path:
    """Where a gate stands in its list."""
    found: Any = scope.document.root
    for step in path:
        found = cast("dict[Any, Any]", found).get(step) if isinstance(found, dict) else None
    return (*path, cast("list[Any]", found).index(gate)) if isinstance(found, list) and gate in found else path
