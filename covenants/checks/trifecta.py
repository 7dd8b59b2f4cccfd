"""The lethal trifecta: private data, untrusted content and a way out in one circle, and nobody asked in between."""

from __future__ import annotations

from covenants.checks.circles import approved_gates, circle_gates
from covenants.checks.scope import BRANCHES, Scope
from covenants.checks.trust import BRINGS, OUTWARD, PRIVATE, UNTRUSTED
from covenants.model import Branch


def check_trifecta(scope: Scope) -> None:
    """Warn of every circle whose gates bring all three together, unless each way out waits for an approval."""
    for branch in scope.branches.values():
        brings = _brings(scope, branch)
        open_ways = [gate for gate in brings[OUTWARD] if gate not in approved_gates(branch)]
        if brings[PRIVATE] and brings[UNTRUSTED] and open_ways:
            message = (
                f"the circle of {branch.name} joins private data ({', '.join(brings[PRIVATE])}), "
                f"untrusted content ({', '.join(brings[UNTRUSTED])}) and a way out ({', '.join(open_ways)}): "
                "a text that it reads can make it give your data away"
            )
            hint = (
                f"let a person say yes each time: `approve: [{', '.join(open_ways)}]`; "
                "or take one of the three out, or split the circle: `critics: {branch: agents, …}`"
            )
            scope.warn("W501", message, hint, at=(*BRANCHES, branch.name, "circle", "gates"), key=True)


def _brings(scope: Scope, branch: Branch) -> dict[str, list[str]]:
    """The gates of a circle by what they bring into it."""
    trust: dict[str, tuple[str, ...]] = {}
    for leaf in scope.catalogue.leaves:
        trust |= leaf.trust
    for other in scope.branches.values():
        for configured in other.leaves.values():
            trust |= configured.info.trusting(configured.options)
    gates = circle_gates(branch)
    return {what: [gate for gate in gates if what in trust.get(gate, ())] for what in BRINGS}
