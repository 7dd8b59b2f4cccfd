"""The entries of the Spellcasting branch."""

from __future__ import annotations

from typing import Any

from branches.attachment import Attachment
from branches.settled import Mark
from journals import Entry


class SpellInvocation(Entry, frozen=True, kw_only=True):
    """A request to cast a spell, with the grants that were valid when it was made."""

    correlation_id: str
    spell: str
    arguments: dict[str, Any]
    grants: tuple[str, ...] = ()


class SpellStarted(Entry, frozen=True, kw_only=True):
    """Written before a spell that must not be repeated touches the world. Without an outcome it means: in doubt."""

    correlation_id: str
    spell: str


class SpellResult(Entry, frozen=True, kw_only=True, omit_defaults=True):
    """What the spell gave, and the files that are to go with the answer."""

    correlation_id: str
    result: Any
    attachments: tuple[Attachment, ...] = ()


class SpellFault(Entry, frozen=True, kw_only=True):
    """Why the spell gave nothing.

    `code` is one of `unknown_spell`, `bad_arguments`, `denied`, `failed`, `timeout`, `unavailable`, `in_doubt`.
    """

    correlation_id: str
    error: str
    code: str = "failed"


class SpellsSettled(Mark, frozen=True, kw_only=True):
    """Every invocation up to this position of the journal has its outcome, so that a start need not look there."""
