"""Where each route begins: recorded once, when the covenant that has it is first applied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from covenants.routing import RoutedBy
from journals import Claim, Entry, Journal, StoreMismatch, Term, Unreadable

SESSION = "covenant"


class Beginning(msgspec.Struct, frozen=True, kw_only=True):
    """Where a route begins: behind the position `start` of the journal `source`; and what it writes to.

    One that was added with `start: beginning` is kept apart for ever: it has cursors of its own, so that it could
    catch up without holding the others.
    """

    source: str
    target: str | None
    fault: str | None
    start: int
    apart: bool = False


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


async def apply_covenant(
    routes: Iterable[RoutedBy],
    system: Journal,
    journals: Mapping[str, Journal],
    dead_letters: Journal,
    claim: Claim,
) -> CovenantApplied:
    """Record the covenant if it is not the one in force; gives where each route begins.

    In a new coven every route begins at the beginning. A route that is added later, or moved to another source,
    begins at the end, unless it says `start: beginning`; one that is kept keeps its place, also when it was edited.
    `claim` is on the session of the covenant. Raises `ClaimLost` when a newer router has claimed it, and
    `StoreMismatch` when the covenant in force cannot be read here.
    """
    before = await system.last(session=SESSION, kinds={CovenantApplied.kind()})
    old = None if before is None else before.entry
    if isinstance(old, Unreadable):
        raise StoreMismatch(f"the covenant in force cannot be read: {old.reason}")
    assert old is None or isinstance(old, CovenantApplied)
    term = term_of(system, claim)
    beginnings: dict[str, Beginning] = {}
    incarnations: dict[str, str] = {}
    for route in routes:
        source = journals[route.source_instance]
        incarnation = incarnations[source.name] = source.log.incarnation
        kept = old.routes.get(route.name) if old is not None else None
        apart = route.from_beginning
        if old is None or old.incarnations.get(source.name, incarnation) != incarnation:
            start = 0
        elif kept is None or kept.source != source.name:
            start = 0 if route.from_beginning else await source.end()
        else:
            start, apart = kept.start, kept.apart
            if (kept.target, kept.fault) != (route.target_instance, route.fault_instance):
                start = await _place(route.name, kept, journals, dead_letters, claim, term)
        beginnings[route.name] = Beginning(
            source=source.name, target=route.target_instance, fault=route.fault_instance, start=start, apart=apart
        )
    applied = CovenantApplied(routes=beginnings, incarnations=incarnations)
    if applied != old:
        await system.append(applied, session=SESSION, expect=claim)
    return applied


async def _place(
    name: str, kept: Beginning, journals: Mapping[str, Journal], dead_letters: Journal, claim: Claim, term: Term
) -> int:
    """How far a route has come that writes to somewhere else from now on: its old cursors know."""
    source = journals[kept.source]
    place = kept.start
    for target in (journals.get(kept.target or ""), journals.get(kept.fault or "", dead_letters)):
        if target is None:
            return await source.end()
        cursor = target.cursor(cursor_name(source.name, name if kept.apart else ""), claim.owner, term)
        place = max(place, await cursor.take(source.log.incarnation, kept.start))
    return place
