"""The Spellcasting branch: typed spells, their registry, and the service that casts them."""

from branches.spellcasting.entries import SpellFault, SpellInvocation, SpellResult, SpellsSettled, SpellStarted
from branches.spellcasting.manifest import SPELLCASTING
from branches.spellcasting.registry import SpellRegistry
from branches.spellcasting.spell import Casting, Spell, SpellFailed, Substrate, WithFiles

__all__ = [
    "SPELLCASTING",
    "Casting",
    "Spell",
    "SpellFailed",
    "SpellFault",
    "SpellInvocation",
    "SpellRegistry",
    "SpellResult",
    "SpellStarted",
    "SpellsSettled",
    "Substrate",
    "WithFiles",
]
