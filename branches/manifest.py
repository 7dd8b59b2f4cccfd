"""A branch's manifest: its kinds, which of them routes may name, and in which direction."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from journals import Entry, EntryRegistry


class Direction(StrEnum):
    """What a covenant may do with a kind."""

    PRODUCES = "produces"
    """Routes may take it from here; the check wants a route or `nowhere` for it."""
    REQUIRES = "requires"
    """Routes may bring it here, and without a route that does the branch has nothing to do."""
    ACCEPTS = "accepts"
    """Routes may bring it here."""
    INTERNAL = "internal"
    """Written and read by the branch's own service only; no route may name it."""


class Kind(msgspec.Struct, frozen=True):
    """One kind of a branch.

    `answers` names the kinds of the same branch that answer a request of this kind: whoever routes the request must
    bring all of them home. A `draft` is not final until the branch commits it. A `short_lived` kind is kept for
    minutes in a journal of its own, and routed at most once. An `occasional` kind arises only where the configuration
    makes it, so that it needs no route elsewhere.
    """

    entry: type[Entry]
    direction: Direction
    answers: tuple[type[Entry], ...] = ()
    draft: bool = False
    short_lived: bool = False
    occasional: bool = False

    @property
    def name(self) -> str:
        """The name that routes use."""
        return self.entry.kind()


class Manifest(msgspec.Struct, frozen=True):
    """All kinds of one branch."""

    branch: str
    kinds: tuple[Kind, ...]

    def registry(self, *, short_lived: bool = False) -> EntryRegistry:
        """A registry of the kinds that its journal holds, or of those that its short-lived journal holds."""
        return EntryRegistry(kind.entry for kind in self.kinds if kind.short_lived is short_lived)

    def get(self, name: str) -> Kind | None:
        """The kind of this name, or None."""
        return next((kind for kind in self.kinds if kind.name == name), None)

    def of(self, *directions: Direction) -> tuple[Kind, ...]:
        """The kinds of these directions."""
        return tuple(kind for kind in self.kinds if kind.direction in directions)
