"""Keeping services alive that requests need: those that another process runs are left to it, for as long as it does.

Several processes may do so at once, as two `coven cast` do. Who starts a service first says so in the system journal,
under an id that only one of them can write; the others go on when that one has left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import msgspec

from branches.service import first_error
from coven.elsewhere import is_ours, running_elsewhere
from coven.lifecycle import SYSTEM_JOURNAL, ServiceChanged, State, system_registry
from coven.supervisor import ServiceFailed, TakenOver
from journals import Entry, IdConflict, Journal, Record, Store, StoreUnavailable, derive_id

_LOOK_AGAIN_S: Final = 1.0
_TRY_AGAIN_S: Final = 0.5
_TRIES: Final = 10

Run = Callable[[Sequence[str], Callable[[], None]], Any]


class Part(msgspec.Struct, frozen=True):
    """A service that is needed. Another process may run it under any of these `keys` of the system journal.

    `key` is what this process would be known by, if at all: one that serves a single session has a key of its own.
    """

    service: str
    keys: tuple[str, ...]
    key: str | None


def parts_of(services: Collection[str], private: Collection[str], session: str | None) -> tuple[Part, ...]:
    """The parts for these services; the `private` ones serve one session alone, which others know if it has a name."""
    parts: list[Part] = []
    for name in services:
        own = None if session is None else f"{name}/{session}"
        if name not in private:
            parts.append(Part(name, (name,), name))
        else:
            parts.append(Part(name, (name,) if own is None else (name, own), own))
    return tuple(parts)


class _GivenWay(Exception):
    """Another process has started a service of ours."""


class Keeping:
    """Runs the parts that nobody else runs. `run` is given names of services and what to call when they are ready."""

    def __init__(self, store: Store, host: str, run: Run) -> None:
        self._store, self._host, self._run = store, host, run
        self.ready = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Keeping by {self._host}: {'ready' if self.ready.is_set() else 'starting'}>"

    async def keep(self, parts: Sequence[Part]) -> None:
        """Keep them alive until cancelled. Raises what a service of ours raises that cannot be kept."""
        while True:
            system = await self._store.open(SYSTEM_JOURNAL, system_registry())
            ours = [part for part in parts if await self._elected(system, part)]
            # In a task of its own: a group that fails in the moment in which it is cancelled tells its failure alone.
            working = asyncio.create_task(self._work(system, parts, ours))
            try:
                await asyncio.wait([working])
            finally:
                working.cancel()
                await asyncio.wait([working])
                error = None if working.cancelled() else working.exception()
            if error is not None and not isinstance(error, TakenOver | _GivenWay):
                raise error

    async def _work(self, system: Journal, parts: Sequence[Part], ours: Sequence[Part]) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                for part in parts:
                    if part not in ours:
                        tasks.create_task(self._stand_in(system, part))
                if ours:
                    tasks.create_task(self._give_way(system, ours, await system.end()))
                    tasks.create_task(self._serve(system, ours))
                else:
                    self.ready.set()
        except BaseExceptionGroup as group:
            raise first_error(group) from None

    async def _elected(self, system: Journal, part: Part) -> bool:
        """Whether it is for us to run it: nobody does, and nobody said first that he would."""
        if await running_elsewhere(self._store, part.keys):
            return False
        if part.key is None:
            return True
        last = await system.last(session=part.key, kinds=[ServiceChanged.kind()])
        starting = ServiceChanged(service=part.service, state=State.STARTING, host=self._host)
        try:
            await system.append(
                starting, session=part.key, id=derive_id("start", part.key, 0 if last is None else last.position)
            )
        except IdConflict:
            return False
        return True

    async def _serve(self, system: Journal, parts: Sequence[Part]) -> None:
        try:
            await self._run([part.service for part in parts], self.ready.set)
        finally:
            for part in parts:
                if part.key is not None and part.key != part.service:
                    stopped = ServiceChanged(service=part.service, state=State.STOPPED, host=self._host)
                    await system.append(stopped, session=part.key)

    async def _give_way(self, system: Journal, parts: Sequence[Part], after: int) -> None:
        """Raises when another process starts one of our services: it was started later, so it is meant."""
        keys = {key for part in parts for key in part.keys}

        def starts(record: Record[Entry]) -> bool:
            entry = record.entry
            if record.session not in keys or not isinstance(entry, ServiceChanged) or is_ours(entry.host):
                return False
            return entry.state in (State.STARTING, State.RUNNING)

        raise _GivenWay((await system.wait_for(starts, after=after, kinds=[ServiceChanged.kind()])).session)

    async def _stand_in(self, system: Journal, part: Part) -> None:
        """Wait until whoever runs it has left, and run it from then on."""
        while await running_elsewhere(self._store, part.keys):
            try:
                await system.wait_for(
                    lambda record: record.session in part.keys,
                    after=await system.end(),
                    kinds=[ServiceChanged.kind()],
                    timeout=_LOOK_AGAIN_S,
                )
            except TimeoutError:
                continue
        for attempt in range(_TRIES):
            try:
                await self.keep([part])
            except (StoreUnavailable, ServiceFailed) as error:  # the server may have left with that process
                lost = error if isinstance(error, StoreUnavailable) else error.error
                if not isinstance(lost, StoreUnavailable) or attempt == _TRIES - 1:
                    raise
                await asyncio.sleep(_TRY_AGAIN_S)
