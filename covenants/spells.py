"""The covenant between agents and spells, for those who have no `coven.yaml`: a cast from Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from branches.agents import AgentToolCall, AgentToolFault, AgentToolResult
from branches.agents.manifest import AGENTS
from branches.manifest import Manifest
from branches.spellcasting import SPELLCASTING, Spell, SpellFault, SpellInvocation, SpellResult
from covenants.conversions import conversion
from covenants.transform import Assignment, Endpoint, Route, make_by_fields, make_fault
from journals import Entry, Record


def spell_routes(agents: str, spellcasting: str, spells: Mapping[str, type[Spell]]) -> tuple[Route, ...]:
    """Each call as an invocation, and each result and fault home, between the instances of these names."""
    call = _end(agents, AGENTS, AgentToolCall)
    result, fault = _end(agents, AGENTS, AgentToolResult), _end(agents, AGENTS, AgentToolFault)
    invocation = _end(spellcasting, SPELLCASTING, SpellInvocation)
    return (
        _route(call, invocation, spells, fault),
        _route(_end(spellcasting, SPELLCASTING, SpellResult), result, spells),
        _route(_end(spellcasting, SPELLCASTING, SpellFault), fault, spells),
    )


def _end(instance: str, manifest: Manifest, entry: type[Entry]) -> Endpoint:
    kind = manifest.get(entry.kind())
    assert kind is not None, entry
    return Endpoint(instance, kind)


def _route(
    source: Endpoint, target: Endpoint, spells: Mapping[str, type[Spell]], fault: Endpoint | None = None
) -> Route:
    asked, made = source.kind.entry, target.kind.entry
    return Route(
        f"{source} -> {target}",
        source,
        (target,),
        make_by_fields(made, _shared(asked, made), conversion(asked, made, spells)),
        fault=None if fault is None else (fault, make_fault(fault.kind.entry, _shared(asked, fault.kind.entry))),
    )


def _shared(source: type[Entry], target: type[Entry]) -> tuple[Assignment, ...]:
    """Fields of the same name, copied."""
    names = [name for name in target.__struct_fields__ if name in source.__struct_fields__]
    return tuple(Assignment(name, _never, None, name) for name in names)


def _never(record: Record[Any]) -> NoReturn:
    raise AssertionError("a copied field is not read")
