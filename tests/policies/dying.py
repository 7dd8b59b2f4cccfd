"""A process that dies, as far as its journal and its world can tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from journals import Journal, Store
from policies import Context, run_registry
from tests.policies.bench import DyingLog, Killed


class Process:
    """One process: a journal of its own that dies before or after its n-th write, and a world that notes touches."""

    def __init__(self, journal: Journal, log: DyingLog, touches: list[tuple[str, str, int]]) -> None:
        self.journal, self._log, self._touches = journal, log, touches

    @classmethod
    async def start(
        cls,
        store: Store,
        touches: list[tuple[str, str, int]],
        *,
        clock: Callable[[], float],
        at: int = 0,
        when: str = "before",
    ) -> Process:
        """A process on this store; with `at` 0 it lives."""
        log = DyingLog((await store.open("runs", run_registry())).log, at, when)
        lossy: Any = log
        return cls(Journal(lossy, run_registry(), clock=clock), log, touches)

    @property
    def writes(self) -> int:
        """How often it has written."""
        return self._log.writes

    def touch(self, name: str, ctx: Context) -> None:
        """Touch the world; a dead process touches nothing."""
        if self._log.dead:
            raise Killed
        self._touches.append((name, ctx.id, ctx.attempt))
