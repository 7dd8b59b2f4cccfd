"""Applying a covenant: each route goes on where it stands, whatever was edited, and no router of before writes on."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import UNSET

from covenants.applied import SESSION, Beginning, CovenantApplied, Missed, term_of
from covenants.routing import Placed
from journals import Claim, Journal, StoreMismatch, Term, Unreadable

_log = logging.getLogger("coven.router")


async def apply_covenant(
    routes: Sequence[Placed],
    system: Journal,
    journals: Mapping[str, Journal],
    dead_letters: Journal,
    claim: Claim,
) -> CovenantApplied:
    """Record the covenant if it is not the one in force; gives where each route begins.

    In a new coven every route begins at the beginning. A route that is added later, or moved to another source,
    begins at the end, unless it says `start: beginning`; so does one whose target was deleted and made anew. One that
    is kept keeps its place, also when it was edited. `claim` is on the session of the covenant.

    Raises `ClaimLost` when a newer router has claimed it, and `StoreMismatch` when the covenant in force cannot be
    read here.
    """
    before = await system.last(session=SESSION, kinds={CovenantApplied.kind()})
    old = None if before is None else before.entry
    if isinstance(old, Unreadable):
        raise StoreMismatch(f"the covenant in force cannot be read: {old.reason}")
    assert old is None or isinstance(old, CovenantApplied)
    incarnations = _incarnations(routes, journals, dead_letters)
    if old is not None and _is_in_force(old, routes, incarnations):
        return old
    places = Places(old or CovenantApplied(routes={}, incarnations={}), journals, dead_letters)
    await places.take(routes, claim.owner, term_of(system, claim))
    beginnings: dict[str, Beginning] = {}
    for route in routes:
        source = journals[route.source_instance]
        kept = None if old is None else old.routes.get(route.name)
        if old is None or places.is_new(source):
            begins = _beginning(route, 0, apart=route.from_beginning)
        elif kept is None or kept.source != source.name:
            start = 0 if route.from_beginning else await source.end()
            begins = _beginning(route, start, apart=route.from_beginning)
        else:
            begins = await places.of(route, kept)
        beginnings[route.name] = begins
    applied = CovenantApplied(routes=beginnings, incarnations=incarnations)
    if applied != old:
        await system.append(applied, session=SESSION, expect=claim)
    return applied


class _Edge(NamedTuple):
    """One of the two journals that a route writes to: where it begins there if nothing is missed, how far the route
    has come, and how far what writes there already.
    """

    begins: int
    place: int
    reached: int


class Places:
    """The cursors of the covenant in force. Once they are taken over, no router of it writes anywhere any more."""

    def __init__(self, old: CovenantApplied, journals: Mapping[str, Journal], dead_letters: Journal) -> None:
        self._old, self._journals, self._dead_letters = old, journals, dead_letters
        self._positions: dict[tuple[str, str], int] = {}

    def __repr__(self) -> str:
        return f"<Places of {len(self._positions)} cursors>"

    async def take(self, routes: Sequence[Placed], owner: str, term: Term) -> None:
        """Take every cursor over, and those by which these routes will write, which may stem from a covenant before.

        Raises `ClaimLost` when a newer router has one, and what the journals raise.
        """
        starts: dict[tuple[str, str, str], int] = {}
        now = {route.name: (route.target_instance, route.fault_instance) for route in routes}
        for name, begins in self._old.routes.items():
            for lane, behind in begins.lanes(name):
                for instance in (begins.target, begins.fault, None, *now.get(name, ())):
                    journal = self._journal(instance)
                    if journal is not None and not self.is_new(journal):
                        key = (begins.source, lane, journal.name)
                        starts[key] = min(*behind, starts.get(key, behind[0]))
        floors: dict[str, int] = {}
        journals = {journal.name: journal for journal in (*self._journals.values(), self._dead_letters)}
        for (source, lane, name), start in starts.items():
            cursor = journals[name].cursor(lane, owner, term)
            self._positions[lane, name] = await cursor.take(self._old.incarnations[source], start)
            floors[lane] = max(cursor.floor, floors.get(lane, 0))
        for lane, name in self._positions:
            self._positions[lane, name] = max(self._positions[lane, name], floors[lane])

    def is_new(self, journal: Journal) -> bool:
        """Whether this journal was deleted and made anew since the covenant in force was applied."""
        return self._old.incarnations.get(journal.name, journal.log.incarnation) != journal.log.incarnation

    async def of(self, route: Placed, kept: Beginning) -> Beginning:
        """Where a route goes on that the covenant in force has as well, from the same source."""
        target = await self._edge(route, kept, 0, kept.target, route.target_instance)
        fault = await self._edge(route, kept, 1, kept.fault, route.fault_instance)
        if target.place >= target.reached and fault.place >= fault.reached:
            return _beginning(route, target.begins, fault.begins, apart=kept.apart)
        # What wrote there already has come further than this route, in a batch that was cut off between its targets.
        missed = Missed(target=target.place, fault=fault.place)
        return _beginning(route, max(*target, *fault), apart=kept.apart, missed=missed)

    async def _edge(self, route: Placed, kept: Beginning, number: int, then: str | None, now: str | None) -> _Edge:
        source, start = self._journals[kept.source], kept.starts[number]
        here, there = self._journal(now), self._journal(then)
        assert here is not None
        if self.is_new(here):
            place = 0 if kept.apart else await source.end()
            _log.error(
                "journal %s was deleted and made anew, and what had been routed into it is gone with it; %s goes on "
                "behind position %d of %s (to bring all of it again: another `name:`, and `start: beginning`)",
                *(here.name, route.name, place, source.name),
            )
            return _Edge(place, place, place)
        if there is None or self.is_new(there):
            place = await source.end()
            return _Edge(place, place, place)
        (lane, _), *missed = kept.lanes(route.name)
        place = reached = max(start, self._positions[lane, there.name])
        for own_lane, starts in missed:
            caught = max(starts[number], self._positions[own_lane, there.name])
            place = caught if caught < start else place
        if now == then:
            return _Edge(start, place, reached)
        return _Edge(place, place, max(place, self._positions.get((lane, here.name), 0)))

    def _journal(self, instance: str | None) -> Journal | None:
        return self._dead_letters if instance is None else self._journals.get(instance)


def _beginning(
    route: Placed, start: int, fault_start: int | None = None, *, apart: bool, missed: Missed | None = None
) -> Beginning:
    return Beginning(
        source=route.source_instance,
        target=route.target_instance,
        fault=route.fault_instance,
        start=start,
        apart=apart,
        fault_start=UNSET if fault_start in (None, start) else fault_start,
        missed=UNSET if missed is None else missed,
    )


def _incarnations(routes: Sequence[Placed], journals: Mapping[str, Journal], dead_letters: Journal) -> dict[str, str]:
    """The streams that these routes take from and write to."""
    instances = {
        instance
        for route in routes
        for instance in (route.source_instance, route.target_instance, route.fault_instance)
        if instance is not None
    }
    named = [*(journals[instance] for instance in sorted(instances)), dead_letters]
    return {journal.name: journal.log.incarnation for journal in named}


def _is_in_force(old: CovenantApplied, routes: Sequence[Placed], incarnations: dict[str, str]) -> bool:
    """Whether the covenant in force has just these routes, between just these streams."""
    then = {name: (begins.source, begins.target, begins.fault) for name, begins in old.routes.items()}
    now = {route.name: (route.source_instance, route.target_instance, route.fault_instance) for route in routes}
    return then == now and old.incarnations == incarnations
