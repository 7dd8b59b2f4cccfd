"""One source journal's pump: its records, in order, through every route that takes them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any

from covenants._bundle import Bundle
from covenants._effects import Effects
from covenants.approving import MADE_AT_MOST
from journals import Entry, EntryRegistry, FenceRefused, Record, RouteCursor, Routed, Term, Unacknowledged

FEW = 32
_BATCH = MADE_AT_MOST
_MADE_BYTES = 8 * 1024 * 1024
_SAVE_EVERY = 256
_IDLE_SAVE_S = 30.0
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
    up without holding anybody else. `owner` and `term` are those of the router.
    """

    def __init__(self, bundle: Bundle, owner: str, term: Term) -> None:
        self._source = bundle.source
        self._cursors: dict[str, RouteCursor] = {}
        self._begins: dict[str, int] = {}
        for name, (journal, start) in bundle.reached().items():
            self._cursors[name] = journal.cursor(bundle.cursor_name, owner, term)
            self._begins[name] = start
        self._wanted = _Wanted({route.source_kind for route in bundle.routes}, bundle.source.registry)
        self._effects = Effects(bundle, self._cursors)
        self._position = 0
        self._made: list[tuple[int, dict[str, list[Routed]]]] = []
        self._made_bytes = 0
        self._writing: asyncio.Task[None] | None = None
        self._delivering = asyncio.Lock()
        self.routed = 0

    def __repr__(self) -> str:
        return f"<Pump {self._source.name} at {self._position} -> {', '.join(self._cursors)}>"

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
                    await self._take_in([record])
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
                        await self._take_in(await anext(groups) if following is None else await following)
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
                    await self._take_in(following.result())
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

    async def _take_in(self, group: list[Record[Entry]]) -> None:
        """Make the effects of these records ready to be written."""
        if self._effects.hearing is not None:
            await self._effects.hearing.listen(group)
        for record in group:
            effects = self._effects.of(record)
            self._made.append((record.position, effects))
            for packed in effects.values():
                for routed in packed:
                    self._made_bytes += len(routed.message.body)

    async def _deliver(self) -> None:
        """Write what is ready: one by one where that is little, else begin a batch, as large as one may be."""
        made = self._made
        if len(made) <= FEW:
            self._made, self._made_bytes = [], 0
            for position, effects in made:
                await self._write_one(effects, position)
                self._position = position
            await self._save(_SAVE_EVERY)  # behind what was ready, which need not wait for it
            return
        await self._save(_SAVE_EVERY)
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
        whole = len(effects) == 1  # an edited route does not look again at what has all arrived
        for target, packed in effects.items():
            cursor = self._cursors[target]
            if len(packed) == 1:
                await cursor.append(packed[0], whole=whole)
            else:
                await cursor.append_all(packed, position, position if whole else self._position)
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
        floor = upto if len(batches) == 1 else self._position
        writes = [self._cursors[target].append_all(batch, upto, floor) for target, batch in batches.items()]
        for outcome in await asyncio.gather(*writes, return_exceptions=True):  # none may be under way any more
            if outcome is not None:
                raise outcome
        self.routed += sum(map(len, batches.values()))
        self._position = upto
