"""The dead-letter journal: what could not be routed, and why. Nothing is lost, all of it can be sent again."""

from __future__ import annotations

from journals import Entry, EntryRegistry

JOURNAL = "dead-letters"


class DeadLetter(Entry, frozen=True, kw_only=True):
    """A record that a route could not take. It still stands in its journal; this says where and what went wrong.

    `route` is empty when the record could not even be decoded, so that no route was tried.
    """

    route: str
    journal: str
    position: int
    source_kind: str
    code: str
    reason: str


class DeadLetterRedriven(Entry, frozen=True, kw_only=True):
    """A dead letter has been sent again, with success."""

    dead_letter: str
    effects: int


def dead_letter_registry() -> EntryRegistry:
    """The kinds of the dead-letter journal."""
    return EntryRegistry((DeadLetter, DeadLetterRedriven))
