"""Circles as code writes them down, with the spells of the leaves by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from branches.agents import circle as agents
from branches.agents.circle import Circle, Shape
from branches.agents.gate import Gate
from branches.agents.gates import GateDefinition
from branches.agents.wards import Ward
from branches.spellcasting import Spell


def circle(
    gates: Iterable[str | GateDefinition | Gate | type[Spell] | Callable[..., Any]],
    wards: Iterable[Ward] | Ward,
    medium: str = "tools",
    *,
    reward: Shape | None = None,
    independent: bool = False,
    approve: Iterable[str] = (),
    approvers: Iterable[str] = (),
) -> Circle:
    """A circle of gates and wards, a list of each; `medium` is `tools`, `javascript` or `python`.

    A gate is the name of a built-in one (`done`, `call_agent`, `call_agent_batch`, `ask_person`, `echo`) or of a spell
    (`fs.read_text`), the class of a spell, a Python function, or what `gate`, `leaves.gates.read`, `write` or `fetch`
    make. `reward` scores the turns of the loom that nobody has rewarded. `independent` calls of one utterance are made
    at once. Gates in `approve` wait for a person, one of the `approvers` where any are named. Raises `ValueError` for
    an unknown name, for two of one name, and for what can be no gate or no ward.
    """
    if medium != "tools":
        _know_medium(medium)
    return agents.circle(
        gates if isinstance(gates, str) else [_gate(each) for each in gates],
        wards,
        medium,
        reward=reward,
        independent=independent,
        approve=approve,
        approvers=approvers,
    )


def _know_medium(name: str) -> None:
    from branches.catalogue import LeafKind
    from leaves.catalogue import CATALOGUE

    known = ("tools", *CATALOGUE.of(LeafKind.MEDIUM))
    if name not in known:
        raise ValueError(f"there is no medium {name!r}; there are: {', '.join(known)}")


def gate_of(spell: type[Spell]) -> GateDefinition:
    """The gate through which an entity casts a spell."""
    return GateDefinition(spell.name(), spell.description(), spell.schema())


def _gate(given: Any) -> Any:
    if isinstance(given, type):
        return gate_of(given) if issubclass(given, Spell) else cast("Any", given)
    if not isinstance(given, str):
        return given
    if given in ("echo", "read", "write", "fetch"):
        from leaves.gates import echo

        if given != "echo":
            raise ValueError(f"gate {given!r} must know what it may reach: give leaves.gates.{given}(...) for its name")
        return echo
    if "." not in given:
        return given
    from leaves.catalogue import CATALOGUE

    spells = CATALOGUE.spells()
    if given not in spells:
        raise ValueError(f"there is no spell {given!r}; there are: {', '.join(spells)}")
    return gate_of(spells[given])
