"""The spells that can be cast here, and what becomes of a request for any other."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any

import msgspec

from branches.spellcasting.spell import Spell, SpellFailed

_SHOWN_NAME = 80


class SpellRegistry:
    """All known spells by full name, and the substrates that are configured.

    Only spells of configured substrates are offered; any other faults at once when it is called anyway.
    """

    def __init__(self, spells: Mapping[str, type[Spell]], substrates: Collection[str]) -> None:
        self._spells, self._substrates = dict(spells), frozenset(substrates)

    def __repr__(self) -> str:
        return f"<SpellRegistry offers {', '.join(self.offered()) or 'nothing'}>"

    def offered(self) -> dict[str, type[Spell]]:
        """The spells that a circle may have, by full name."""
        return {name: spell for name, spell in self._spells.items() if spell.substrate() in self._substrates}

    def is_repeatable(self, name: str) -> bool | None:
        """Whether the spell of this name may be cast again after a crash; None for a name that nobody knows."""
        spell = self._spells.get(name)
        return None if spell is None else spell.idempotent

    def resolve(self, name: str, arguments: dict[str, Any]) -> Spell:
        """The spell of this name with these arguments.

        Raises `SpellFailed` with code `unknown_spell`, `unavailable` or `bad_arguments` and a message that a model
        can act on.
        """
        spell = self._spells.get(name)
        if spell is None:
            raise SpellFailed("unknown_spell", self._unknown(name))
        if spell.substrate() not in self._substrates:
            raise SpellFailed(
                "unavailable", f"{name} is not available: no substrate {spell.substrate()!r} is configured here"
            )
        try:
            return msgspec.convert(arguments, spell)
        except msgspec.ValidationError as error:
            raise SpellFailed(
                "bad_arguments", f"these arguments do not fit {name}: {error}. It takes {_signature(spell)}"
            ) from None

    def _unknown(self, name: str) -> str:
        offered = sorted(self.offered())
        nearest = get_close_matches(name[:_SHOWN_NAME], offered, n=1)
        hint = f"did you mean {nearest[0]}? " if nearest else ""
        return f"there is no spell {name[:_SHOWN_NAME]!r}: {hint}There are {', '.join(offered) or 'none'}"


def _signature(spell: type[Spell]) -> str:
    """The arguments in one line: name, type, whether required, and what they mean."""
    schema = spell.schema()
    required: list[str] = schema.get("required", [])
    fields: dict[str, dict[str, Any]] = schema["properties"]
    described: list[str] = []
    for name, field in fields.items():
        need = "required" if name in required else f"default {msgspec.json.encode(field.get('default')).decode()}"
        meaning = f": {field['description']}" if "description" in field else ""
        described.append(f"`{name}` ({field.get('type', 'any')}, {need}){meaning}")
    return "; ".join(described) or "no arguments"
