"""Conversions that are built in, for pairs of kinds that need to know more than their fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from branches.agents.entries import AgentThought, AgentToolCall
from branches.chat.entries import ChatActivity
from branches.spellcasting import Spell, SpellFailed, SpellInvocation, SpellRegistry
from branches.spellcasting.entries import SpellFault, SpellResult
from covenants.routing import TransformFailed
from journals import Entry

ACTIVITY_CHARS = 4000
"""How much of a thought, of arguments or of a result goes to a chat; all of it stays where it was recorded."""

Fields = dict[str, Any]

_ACTIVITIES: Mapping[type[Entry], str] = {
    AgentThought: "thought",
    AgentToolCall: "call",
    SpellResult: "result",
    SpellFault: "fault",
}


class Conversion(NamedTuple):
    """Completes the fields of a target. `fills` are the required ones that it gives itself.

    Where it `may_fail`, it raises `TransformFailed` for a record of which nothing can be made.
    """

    fills: frozenset[str]
    complete: Callable[[Entry, Fields], Fields]
    may_fail: bool = True


def conversion(source: type[Entry], target: type[Entry], spells: Mapping[str, type[Spell]]) -> Conversion | None:
    """The built-in conversion of these two kinds, if there is one. `spells` are those that the target can cast."""
    if source is AgentToolCall and target is SpellInvocation:
        return Conversion(frozenset({"spell"}), _tool_call(spells))
    if target is ChatActivity and source in _ACTIVITIES:
        return Conversion(frozenset({"activity", "text"}), _activity, may_fail=False)
    return None


def _activity(entry: Entry, fields: Fields) -> Fields:
    """What an agent did, for people: text, and not too much of it."""
    fields.setdefault("activity", _ACTIVITIES[type(entry)])
    match entry:
        case AgentToolCall():
            text = _json(entry.arguments)
        case SpellResult():
            text = entry.result if isinstance(entry.result, str) else _json(entry.result)
        case SpellFault():
            text = entry.error if entry.code == "failed" else f"{entry.code}: {entry.error}"
        case _:
            text = ""
    text = fields.setdefault("text", text)
    if len(text) > ACTIVITY_CHARS:
        fields["text"] = f"{text[:ACTIVITY_CHARS]}\n… {len(text) - ACTIVITY_CHARS:,} characters more"
    return fields


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


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
