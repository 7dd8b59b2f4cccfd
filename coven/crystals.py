"""Which crystal answers where the configuration says `auto`."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from branches.catalogue import Catalogue, LeafInfo, LeafKind

REHEARSAL = "rehearsal"
PROVIDER_KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY")


class Choice(msgspec.Struct, frozen=True):
    """A crystal, and what a person should know about the choice."""

    leaf: LeafInfo
    notice: str | None = None


def choose_crystal(catalogue: Catalogue, environ: Mapping[str, str]) -> Choice:
    """The first crystal leaf whose keys are all set; else the rehearsal crystal, which needs none."""
    leaves = catalogue.of(LeafKind.CRYSTAL)
    for leaf in leaves.values():
        if leaf.secrets and all(environ.get(secret) for secret in leaf.secrets):
            return Choice(leaf)
    rehearsal = leaves[REHEARSAL]
    usable = {secret for leaf in leaves.values() for secret in leaf.secrets}
    unused = [key for key in PROVIDER_KEYS if environ.get(key) and key not in usable]
    if not unused:
        return Choice(rehearsal)
    return Choice(
        rehearsal,
        f"{' and '.join(unused)} {'is' if len(unused) == 1 else 'are'} set, but this version of Coven has no crystal "
        "for that provider: the rehearsal crystal answers instead, and no model is called",
    )
