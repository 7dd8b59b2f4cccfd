"""A real kill of a real process over a real server: the next one, elsewhere, ends in the same ledger.

The short form kills at every thirtieth journal operation; `pytest -m chaos` kills at all of them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from coven.testing import EagerClock
from coven.testing.crashes import FaultPoint, killed_at, reached_points
from journals import EmbeddedServer, JetStreamStore, MemoryStore
from policies import Ledger, resume, run, run_registry
from tests.policies.expedition import (
    JOURNAL,
    PAYLOAD,
    check_touches,
    expedition,
    same_but_in_doubt,
    touches_in,
    touching,
)

ROOT = Path(__file__).parents[2]


class Case:
    """One coven on the server, for runs that are begun by processes of their own."""

    def __init__(self, server: EmbeddedServer, coven: str, folder: Path) -> None:
        self._server, self._coven, self._folder = server, coven, folder

    def effects(self, run_id: str) -> Path:
        return self._folder / f"{run_id}.effects"

    async def begin(self, run_id: str, **environment: str) -> int:
        """Perform the run in another process, in another folder; gives its exit code."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.policies.expedition", run_id),
            cwd=self._folder,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "PROBE_NATS": self._server.url,
                "PROBE_TOKEN": self._server.token,
                "PROBE_COVEN": self._coven,
                "PROBE_EFFECTS": str(self.effects(run_id)),
                **environment,
            },
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            _, errors = await asyncio.wait_for(process.communicate(), 60)
        except TimeoutError:
            process.kill()
            _, errors = await process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), errors.decode()
        return process.returncode

    async def go_on(self, run_id: str) -> Ledger:
        """Go on with the run here, knowing no more than its id."""
        store = await JetStreamStore.connect(self._server.url, self._coven, token=self._server.token)
        async with store:
            journal = await store.open(JOURNAL, run_registry())
            registry = expedition(touching(self.effects(run_id)))
            return await resume(run_id, registry, journal=journal, clock=EagerClock())

    async def points(self) -> list[FaultPoint]:
        """Where a run can be killed, once it has begun."""
        trace = self._folder / "trace"
        assert await self.begin("traced", COVEN_FAULT_TRACE=str(trace)) == 0
        reached = reached_points(trace)
        return reached[1:]  # before its first entry there is no run yet


async def kill_at(points: list[FaultPoint], case: Case) -> int:
    """Kill a run at each of the points, go on with it, and compare; gives how many outcomes were in doubt."""
    doubts = 0
    for number, point in enumerate(points):
        run_id = f"run{number}"
        assert await case.begin(run_id, **killed_at(point)) == -signal.SIGKILL, f"{point} was not reached"
        ledger = await case.go_on(run_id)
        async with MemoryStore() as store:
            journal = await store.open(JOURNAL, run_registry())
            registry = expedition(lambda name, ctx: None)
            expected = await run("expedition", PAYLOAD, registry, journal=journal, run_id=run_id, clock=EagerClock())
        try:
            doubts += same_but_in_doubt(ledger, expected)
            check_touches(touches_in(case.effects(run_id)))
        except AssertionError as error:
            raise AssertionError(f"killed at {point}: {error}") from error
    return doubts


async def test_a_kill_at_every_thirtieth_operation(
    nats_server: EmbeddedServer, coven_name: str, tmp_path: Path
) -> None:
    case = Case(nats_server, coven_name, tmp_path)
    points = await case.points()
    assert len(points) > 150
    await kill_at(points[::30], case)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
async def test_a_kill_at_every_operation(nats_server: EmbeddedServer, coven_name: str, tmp_path: Path) -> None:
    case = Case(nats_server, coven_name, tmp_path)
    assert await kill_at(await case.points(), case) > 0
