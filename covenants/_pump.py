"""One source journal's pump: its records, in order, through every route that takes them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from covenants.applied import cursor_name
from covenants.dead_letters import DeadLetter
from covenants.routing import RoutedBy, TransformFailed
from journals import (
    DerivedIds,
    Draft,
    Entry,
    EntryRegistry,
    FenceRefused,
    InvalidEntry,
    InvalidName,
    Journal,
    Record,
    RouteCursor,
    Routed,
    Term,
    Unacknowledged,
    Unreadable,
)

FEW = 32
_BATCH = 900
_MADE_BYTES = 8 * 1024 * 1024
_SAVE_EVERY = 256
_IDLE_SAVE_S = 30.0
_REASON_CHARS = 4000
_UNADDRESSED = "unaddressed"
_log = logging.getLogger("coven.router")


class _Wanted(Collection[str]):
    """The kinds that the pump decodes: those with a route, and those that nobody here knows."""

    def __init__(self, kinds: set[str], registry: EntryRegistry) -> None:
        self._kinds, self._registry = kinds, registry

    def __contains__(self, kind: object) -> bool:
        return kind in self._kinds or kind not in self._registry.kinds

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)


class Pump:
    """Takes from one journal and writes to several, each effect once, in source order.

    In every target it has a cursor. A route that begins at the beginning has cursors of its own, so that it can catch
    up without holding anybody else.
    """

    def __init__(
        self,
        source: Journal,
        routes: Sequence[RoutedBy],
        targets: Mapping[str, Journal],
        dead_letters: Journal,
        starts: Mapping[str, tuple[int, int]],
        owner: str,
        term: Term,
        lane: str = "",
    ) -> None:
        self._source, self._targets, self._dead_letters = source, targets, dead_letters
        self._starts = starts
        self._lowest = {name: min(behind) for name, behind in starts.items()}
        self._uneven = {name: behind for name, behind in starts.items() if behind[0] != behind[1]}
        self._routes: dict[str, list[RoutedBy]] = {}
        for route in routes:
            self._routes.setdefault(route.source_kind, []).append(route)
        self._own_dead_letters = lane == ""
        name = cursor_name(source.name, lane)
        self._cursors: dict[str, RouteCursor] = {}
        self._begins: dict[str, int] = {}
        for journal, start in self._reached(routes):
            self._cursors.setdefault(journal.name, journal.cursor(name, owner, term))
            self._begins[journal.name] = min(start, self._begins.get(journal.name, start))
        self._wanted = _Wanted(set(self._routes), source.registry)
        self._position = 0
        self._ids: dict[str, DerivedIds] = {}
        self._made: list[tuple[int, dict[str, list[Routed]]]] = []
        self._made_bytes = 0
        self._writing: asyncio.Task[None] | None = None
        self._delivering = asyncio.Lock()
        self.routed = 0

    def __repr__(self) -> str:
        return f"<Pump {self._source.name} at {self._position} -> {', '.join(self._cursors)}>"

    def _reached(self, routes: Sequence[RoutedBy]) -> Iterator[tuple[Journal, int]]:
        """The journals that the routes write to, and behind which position each route begins to."""
        for route in routes:
            instances = (route.target_instance, route.fault_instance)
            for instance, start in zip(instances, self._starts[route.name], strict=True):
                if instance is not None:
                    yield self._targets[instance], start
        yield self._dead_letters, min(self._lowest.values(), default=0)

    async def take(self) -> None:
        """Take every cursor over, and find the place to go on. Raises what the journals raise."""
        incarnation = self._source.log.incarnation
        for name, cursor in self._cursors.items():
            await cursor.take(incarnation, self._begins[name])
        floor = max(cursor.floor for cursor in self._cursors.values())
        for cursor in self._cursors.values():
            cursor.lift(floor)
        self._position = min(cursor.position for cursor in self._cursors.values())

    async def catch_up(self, upto: int) -> None:
        """Carry what is recorded up to a position, each effect once, and come to an end. Raises what `run` raises."""
        while True:
            try:
                await self.take()
                async for record in self._source.read(after=self._position, before=upto + 1, kinds=self._wanted):
                    self._make([record])
                    await self._deliver()
                self._position = max(self._position, upto)
                return await self._save(1)
            except (FenceRefused, Unacknowledged) as reason:
                _log.info("routes of %s look where they stand: %s", self._source.name, reason)

    async def run(self) -> None:
        """Pump for ever, from where `take` left off. Raises `ClaimLost` when another router has taken over."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._save_when_idle())
            while True:
                try:
                    await self._flow()
                except (FenceRefused, Unacknowledged) as reason:
                    _log.info("routes of %s look where they stand: %s", self._source.name, reason)
                    await self.take()

    async def _flow(self) -> None:
        groups = self._source.tail_groups(self._position, kinds=self._wanted)
        following: asyncio.Future[list[Record[Entry]]] | None = None
        try:
            while True:
                if self._writing is None:
                    if not self._made:
                        self._make(await anext(groups) if following is None else await following)
                        following = None
                    async with self._delivering:
                        await self._deliver()
                    continue
                # A batch is under way: what follows is made ready, and its end is heard of, however long nothing does.
                waiting: set[asyncio.Future[Any]] = {self._writing}
                if len(self._made) < _BATCH and self._made_bytes < _MADE_BYTES:
                    following = following or asyncio.ensure_future(anext(groups))
                    waiting.add(following)
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if following is not None and following.done():
                    self._make(following.result())
                    following = None
                if self._writing.done():
                    await self._written()
        finally:
            under_way: list[asyncio.Future[Any]] = [task for task in (following, self._writing) if task is not None]
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)
            self._writing = None
            self._made.clear()
            self._made_bytes = 0
            await groups.aclose()

    async def _save_when_idle(self) -> None:
        """Save the cursors when nothing has come for a while, so that the next start reads little."""
        while True:
            seen = self._position
            await asyncio.sleep(_IDLE_SAVE_S)
            if seen == self._position and self._writing is None and not self._delivering.locked():
                async with self._delivering:
                    with suppress(FenceRefused, Unacknowledged):  # the next record finds out where we stand
                        await self._save(1)

    async def _save(self, lag: int) -> None:
        for cursor in self._cursors.values():
            if cursor.lag(self._position) >= lag:
                await cursor.save(self._position, self._position)

    def _make(self, group: list[Record[Entry]]) -> None:
        """Make the effects of these records ready to be written."""
        for record in group:
            effects = self._effects(record)
            self._made.append((record.position, effects))
            for packed in effects.values():
                for routed in packed:
                    self._made_bytes += len(routed.message.body)

    async def _deliver(self) -> None:
        """Write what is ready: one by one where that is little, else begin a batch, as large as one may be."""
        await self._save(_SAVE_EVERY)
        made = self._made
        if len(made) <= FEW:
            self._made, self._made_bytes = [], 0
            for position, effects in made:
                await self._write_one(effects, position)
                self._position = position
            return
        batch, self._made = made[:_BATCH], made[_BATCH:]
        if not self._made:
            self._made_bytes = 0
        effects, upto = [effects for _, effects in batch], batch[-1][0]
        self._writing = asyncio.create_task(self._write_many(effects, upto))

    async def _written(self) -> None:
        """Wait until the batch under way has arrived. Raises what its writing raised."""
        if self._writing is not None:
            writing, self._writing = self._writing, None
            await writing

    async def _write_one(self, effects: dict[str, list[Routed]], position: int) -> None:
        for target, packed in effects.items():
            cursor = self._cursors[target]
            if len(packed) == 1:
                await cursor.append(packed[0])
            else:
                await cursor.append_all(packed, position, self._position)
            self.routed += len(packed)

    async def _write_many(self, all_effects: list[dict[str, list[Routed]]], upto: int) -> None:
        batches: dict[str, list[Routed]] = {}
        for effects in all_effects:
            for target, packed in effects.items():
                batch = batches.setdefault(target, [])
                if batch and len(batch) + len(packed) > _BATCH:
                    await self._cursors[target].append_all(batch, packed[0].source_position - 1, self._position)
                    self.routed += len(batch)
                    batch.clear()
                batch.extend(packed)
        floor = self._position
        writes = [self._cursors[target].append_all(batch, upto, floor) for target, batch in batches.items()]
        for outcome in await asyncio.gather(*writes, return_exceptions=True):  # none may be under way any more
            if outcome is not None:
                raise outcome
        self.routed += sum(map(len, batches.values()))
        self._position = upto

    def _effects(self, record: Record[Entry]) -> dict[str, list[Routed]]:
        """What this record becomes, by target journal; where it has arrived already, nothing."""
        effects: dict[str, list[Routed]] = {}
        if record.imported:
            return effects
        if isinstance(record.entry, Unreadable):
            if self._own_dead_letters:
                self._pack_letter(effects, record, "", TransformFailed("unreadable", record.entry.reason))
            return effects
        for route in self._routes.get(record.kind, ()):
            if record.position > self._lowest[route.name]:
                self._through(route, record, effects)
        return effects

    def _through(self, route: RoutedBy, record: Record[Entry], effects: dict[str, list[Routed]]) -> None:
        if route.target_instance is None:
            return
        hops = record.hops + (route.max_hops is not None)
        made: dict[str, list[Routed]] = {}
        try:
            if route.max_hops is not None and hops > route.max_hops:
                raise TransformFailed("max_hops", f"this exchange has passed {route.max_hops} times; see `max_hops`")
            target = self._targets[route.target_instance]
            entries = route.apply(record)
            if len(entries) + len(effects.get(target.name, ())) > _BATCH:
                raise TransformFailed(
                    "too_many", f"it made {len(entries)} entries of one; a route makes up to {_BATCH}"
                )
            for number, entry in enumerate(entries):
                self._pack(made, target, entry, record, route.name, number, hops)
            arrived = 0
        except (TransformFailed, InvalidEntry, InvalidName) as error:
            failure = error if isinstance(error, TransformFailed) else TransformFailed("not_storable", str(error))
            made = self._failed(route, record, failure)
            arrived = 1
        if self._uneven and route.name in self._uneven and record.position <= self._uneven[route.name][arrived]:
            return
        for target_name, packed in made.items():
            effects.setdefault(target_name, []).extend(packed)

    def _failed(self, route: RoutedBy, record: Record[Entry], failure: TransformFailed) -> dict[str, list[Routed]]:
        made: dict[str, list[Routed]] = {}
        if route.fault_instance is not None and failure.code != "max_hops":
            try:
                fault = route.fault(record, failure)
                self._pack(made, self._targets[route.fault_instance], fault, record, f"{route.name}!", 0)
                return made
            except (TransformFailed, InvalidEntry, InvalidName):
                made.clear()  # not even its fault can be stored
        self._pack_letter(made, record, route.name, failure)
        return made

    def _pack_letter(
        self, effects: dict[str, list[Routed]], record: Record[Entry], route: str, failure: TransformFailed
    ) -> None:
        _log.warning("dead letter: %s of %s at %d: %s", route or record.kind, record.journal, record.position, failure)
        letter = DeadLetter(
            route=route,
            journal=record.journal,
            position=record.position,
            source_kind=record.kind,
            code=failure.code,
            reason=str(failure)[:_REASON_CHARS].encode("utf-8", "replace").decode(),
        )
        name = route or "dead-letters"
        try:
            self._pack(effects, self._dead_letters, letter, record, name, 0)
        except (InvalidEntry, InvalidName):  # the envelope that somebody else wrote cannot be written again
            bare = msgspec.structs.replace(record, session=_UNADDRESSED, id="", correlation_id=None, origin=None)
            self._pack(effects, self._dead_letters, letter, bare, name, 0)

    def _pack(
        self,
        effects: dict[str, list[Routed]],
        target: Journal,
        entry: Entry,
        record: Record[Entry],
        route: str,
        number: int,
        hops: int = 0,
    ) -> None:
        cursor = self._cursors[target.name]
        if record.position <= cursor.position:
            return
        ids = self._ids.get(route)
        if ids is None:
            ids = self._ids[route] = routed_ids(route, self._source)
        draft = routed_draft(entry, record, route, ids(record.position, number), hops or record.hops)
        effects.setdefault(target.name, []).append(cursor.pack(draft, record.position))


def routed_ids(route: str, source: Journal) -> DerivedIds:
    """The ids of what a route makes of a journal's records, by their positions and the number of the effect."""
    return DerivedIds("route", route, source.name, source.log.incarnation)


def routed_draft(entry: Entry, record: Record[Entry], route: str, id: str, hops: int = 0) -> Draft:
    """What a route writes: session, correlation and origin of its source, and an id that derives from it."""
    return Draft(
        entry=entry,
        session=record.session,
        id=id,
        correlation_id=record.correlation_id,
        causation_id=record.id,
        origin=record.origin,
        route=route,
        hops=hops,
    )
