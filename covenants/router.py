"""The router: a service that carries entries between journals as the covenant says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from msgspec import UNSET

from covenants._bundle import Bundle
from covenants._effects import routed_draft, routed_ids
from covenants._pump import Pump
from covenants.applied import SESSION, Beginning, term_of
from covenants.applying import apply_covenant
from covenants.approving import Carried, halves
from covenants.routing import RoutedBy, TransformFailed
from journals import Entry, InvalidEntry, InvalidName, Journal, Record, Term, Unreadable


class Router:
    """One pump a source journal, so that kinds of one session keep their order.

    `journals` are the journals of the branch instances by name, `short_lived` the journals beside them that hold
    chunks; `system` is where the covenant in force is recorded. `owner` names this process in claims.
    """

    name = "covenant"

    def __init__(
        self,
        routes: Sequence[RoutedBy],
        journals: Mapping[str, Journal],
        *,
        short_lived: Mapping[str, Journal],
        system: Journal,
        dead_letters: Journal,
        owner: str,
    ) -> None:
        self._routes = [route for route in routes if route.target_instance is not None]
        self._journals, self._short_lived = journals, short_lived
        self._system, self._dead_letters, self._owner = system, dead_letters, owner
        self._pumps: list[Pump] = []

    def __repr__(self) -> str:
        return f"<Router {len(self._routes)} routes, {len(self._pumps)} pumps, {self.routed} routed>"

    @property
    def routed(self) -> int:
        """How many entries this router has written."""
        return sum(pump.routed for pump in self._pumps)

    async def run(self, ready: Callable[[], None]) -> None:
        """Route until cancelled. Raises `ClaimLost` when a router that was started later has taken over."""
        durable = halves(route for route in self._routes if not route.short_lived)
        claim = await self._system.claim(SESSION, self._owner)
        applied = await apply_covenant(durable, self._system, self._journals, self._dead_letters, claim)
        term = term_of(self._system, claim)
        await self._catch_up(durable, applied.routes, term)
        self._pumps = self._make_pumps(durable, applied.routes, term)
        for pump in self._pumps:
            await pump.take()
        async with asyncio.TaskGroup() as group:
            for pump in self._pumps:
                group.create_task(pump.run())
            for source in {route.source_instance for route in self._routes if route.short_lived}:
                routes = [route for route in self._routes if route.short_lived and route.source_instance == source]
                group.create_task(self._pass_on(self._short_lived[source], routes))
            ready()

    async def _catch_up(self, routes: Sequence[Carried], beginnings: Mapping[str, Beginning], term: Term) -> None:
        """Carry what edited routes have missed, before they go on with the others."""
        for route in routes:
            begins = beginnings[route.name]
            if begins.missed is not UNSET:
                starts = {route.name: (begins.missed.target, begins.missed.fault)}
                pump = self._pump(begins.source, [route], starts, term, begins.missed_lane(route.name))
                await pump.catch_up(begins.start)

    def _make_pumps(self, routes: Sequence[Carried], beginnings: Mapping[str, Beginning], term: Term) -> list[Pump]:
        pumps: list[Pump] = []
        for source in dict.fromkeys(route.source_instance for route in routes):
            lanes: dict[str, list[Carried]] = {"": []}
            for route in routes:
                if route.source_instance == source:
                    lanes.setdefault(route.name if beginnings[route.name].apart else "", []).append(route)
            for lane, members in lanes.items():
                starts = {route.name: beginnings[route.name].starts for route in members}
                pumps.append(self._pump(source, members, starts, term, lane))
        return pumps

    def _pump(
        self, source: str, routes: Sequence[Carried], starts: Mapping[str, tuple[int, int]], term: Term, lane: str
    ) -> Pump:
        bundle = Bundle(
            source=self._journals[source],
            routes=routes,
            starts=starts,
            journals=self._journals,
            dead_letters=self._dead_letters,
            lane=lane,
        )
        return Pump(bundle, self._owner, term)

    async def _pass_on(self, source: Journal, routes: Sequence[RoutedBy]) -> None:
        """Carry chunks: from now on, at most once, unacknowledged."""
        by_kind: dict[str, list[RoutedBy]] = {}
        for route in routes:
            by_kind.setdefault(route.source_kind, []).append(route)
        async for record in source.tail(await source.end(), kinds=set(by_kind)):
            if isinstance(record.entry, Unreadable):
                continue
            for route in by_kind[record.kind]:
                try:
                    entries = route.apply(record)
                except TransformFailed:
                    continue
                for number, entry in enumerate(entries):
                    with suppress(InvalidEntry, InvalidName):
                        await self._send(entry, record, route, routed_ids(route.name, source)(record.position, number))

    async def _send(self, entry: Entry, record: Record[Entry], route: RoutedBy, id: str) -> None:
        assert route.target_instance is not None
        target = self._short_lived[route.target_instance]
        await target.send(routed_draft(entry, record, route.name, id))
