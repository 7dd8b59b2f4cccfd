"""The covenant in force: which routes there are, and where each begins; recorded whenever that changes."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import UNSET, UnsetType

from journals import Claim, Entry, Journal, Term

SESSION = "covenant"


class Missed(msgspec.Struct, frozen=True, kw_only=True):
    """Where a route stood in its target and its fault when others of its source had come further there."""

    target: int
    fault: int


class Beginning(msgspec.Struct, frozen=True, kw_only=True):
    """Where a route begins: behind the position `start` of the journal `source`; and what it writes to.

    Its faults begin behind `fault_start` where that differs. What it `missed` up to `start` is carried first, by
    cursors of its own. A route that was added with `start: beginning` is kept apart for ever: it has cursors of its
    own, so that it could catch up without holding the others.
    """

    source: str
    target: str | None
    fault: str | None
    start: int
    apart: bool = False
    fault_start: int | UnsetType = UNSET
    missed: Missed | UnsetType = UNSET

    @property
    def starts(self) -> tuple[int, int]:
        """Where its target and its fault begin."""
        return self.start, self.start if self.fault_start is UNSET else self.fault_start

    def lanes(self, name: str) -> Iterator[tuple[str, tuple[int, int]]]:
        """The names of its cursors, and where target and fault begin by each; `name` is that of the route."""
        yield cursor_name(self.source, name if self.apart else ""), self.starts
        if self.missed is not UNSET:
            yield cursor_name(self.source, self.missed_lane(name)), (self.missed.target, self.missed.fault)

    def missed_lane(self, name: str) -> str:
        """What tells the cursors apart that carry what was missed."""
        return f"{name}@{self.start}"


class CovenantApplied(Entry, frozen=True, kw_only=True):
    """The routes that are in force from now on, and the streams that their positions belong to."""

    routes: dict[str, Beginning]
    incarnations: dict[str, str]


def cursor_name(source: str, lane: str) -> str:
    """The name of the cursors of a pump: that of its source, and of its route if that is kept apart."""
    return f"{source}/{lane}" if lane else source


def term_of(system: Journal, claim: Claim) -> Term:
    """When the router began that has this claim on the covenant."""
    return Term(system.log.incarnation, claim.position)
