"""Where each route begins: recorded once, when the covenant that has it is first applied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from covenants.routing import RoutedBy
from journals import Entry, Journal

SESSION = "covenant"


class CovenantApplied(Entry, frozen=True, kw_only=True):
    """The routes that are in force from now on.

    `starts` is the source position that each route begins behind; `incarnations` names the streams that these
    positions belong to.
    """

    starts: dict[str, int]
    incarnations: dict[str, str]


async def apply_covenant(
    routes: Iterable[RoutedBy], system: Journal, journals: Mapping[str, Journal]
) -> CovenantApplied:
    """Record the covenant if it is not the one in force; gives where each route begins.

    In a new coven every route begins at the beginning. A route that is added later begins at the end, unless it says
    `start: beginning`; one that is kept keeps its place, also when it was edited.
    """
    before = await system.last(session=SESSION, kinds={CovenantApplied.kind()})
    old = before.entry if before is not None and isinstance(before.entry, CovenantApplied) else None
    starts: dict[str, int] = {}
    incarnations: dict[str, str] = {}
    for route in routes:
        source = journals[route.source_instance]
        incarnations[source.name] = source.log.incarnation
        renewed = (
            old is not None and old.incarnations.get(source.name, source.log.incarnation) != source.log.incarnation
        )
        if old is None or renewed or route.from_beginning:
            starts[route.name] = 0
        elif route.name in old.starts:
            starts[route.name] = old.starts[route.name]
        else:
            starts[route.name] = await source.end()
    applied = CovenantApplied(starts=starts, incarnations=incarnations)
    if applied != old:
        await system.append(applied, session=SESSION)
    return applied
