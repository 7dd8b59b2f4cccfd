"""The kinds of the Spellcasting branch."""

from __future__ import annotations

from branches.manifest import Direction, Kind, Manifest
from branches.spellcasting.entries import SpellFault, SpellInvocation, SpellResult, SpellsSettled, SpellStarted

SPELLCASTING = Manifest(
    branch="spellcasting",
    kinds=(
        Kind(SpellInvocation, Direction.REQUIRES, answers=(SpellResult, SpellFault)),
        Kind(SpellStarted, Direction.INTERNAL),
        Kind(SpellResult, Direction.PRODUCES),
        Kind(SpellFault, Direction.PRODUCES),
        Kind(SpellsSettled, Direction.INTERNAL),
    ),
)
