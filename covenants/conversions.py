"""Conversions that are built in, for pairs of kinds that need to know more than their fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from branches.agents.entries import AgentToolCall
from branches.spellcasting import Spell, SpellFailed, SpellInvocation, SpellRegistry
from covenants.routing import TransformFailed
from journals import Entry

Fields = dict[str, Any]


class Conversion(NamedTuple):
    """Completes the fields of a target. `fills` are the required ones that it gives itself."""

    fills: frozenset[str]
    complete: Callable[[Entry, Fields], Fields]


def conversion(source: type[Entry], target: type[Entry], spells: Mapping[str, type[Spell]]) -> Conversion | None:
    """The built-in conversion of these two kinds, if there is one. `spells` are those that the target can cast."""
    if source is AgentToolCall and target is SpellInvocation:
        return Conversion(frozenset({"spell"}), _tool_call(spells))
    return None


def _tool_call(spells: Mapping[str, type[Spell]]) -> Callable[[Entry, Fields], Fields]:
    """A tool call names a spell and has arguments for it: both are looked at before anything is sent."""
    registry = SpellRegistry(spells, {spell.substrate() for spell in spells.values()})

    def complete(entry: Entry, fields: Fields) -> Fields:
        assert isinstance(entry, AgentToolCall)
        name = fields.setdefault("spell", entry.tool_name)
        try:
            registry.resolve(name, fields["arguments"])
        except SpellFailed as failure:
            code = "unknown_tool" if failure.code == "unknown_spell" else failure.code
            raise TransformFailed(code, str(failure)) from None
        return fields

    return complete
