"""All leaves that come with Coven. Reading this imports no SDK."""

from __future__ import annotations

from branches.catalogue import Catalogue, LeafInfo, LeafKind
from leaves.chats.console import ConsoleOptions

CATALOGUE = Catalogue(
    leaves=(
        LeafInfo(
            name="console",
            kind=LeafKind.CHAT,
            summary="this terminal, or a pipe",
            factory="leaves.chats.console:Console",
            options=ConsoleOptions,
        ),
        LeafInfo(
            name="rehearsal",
            kind=LeafKind.CRYSTAL,
            summary="no model: a few plain phrases that make real gate calls",
            factory="leaves.crystals.rehearsal:RehearsalCrystal",
        ),
    )
)
