"""The Spellcasting branch: typed spells, their registry, and the service that casts them."""

from branches.spellcasting.entries import SpellFault, SpellInvocation, SpellResult, SpellStarted
from branches.spellcasting.manifest import SPELLCASTING
from branches.spellcasting.spell import Casting, Spell, SpellFailed, Substrate

__all__ = [
    "SPELLCASTING",
    "Casting",
    "Spell",
    "SpellFailed",
    "SpellFault",
    "SpellInvocation",
    "SpellResult",
    "SpellStarted",
    "Substrate",
]
