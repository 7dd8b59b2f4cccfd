"""Many entities at once in one process, each at work on an intent of its own: does any starve, and what do they take?

Every entity takes twenty turns with a spell in each, over an embedded server; all are asked at the same moment.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks import turn_coven
from benchmarks.harness import Profile, Result, alone, cpu_of, percentile
from benchmarks.round_trip import BenchLeaf, walking
from benchmarks.seats import Seat
from branches.agents.crystal import CrystalRequest, CrystalResponse, ToolCall, Usage
from branches.chat import ChatEfferent
from journals import Record

_TURNS = 20
_SPREAD = 2.0


class ManyCrystal:
    """Calls the tool in every turn but the last; remembers when it was asked for which entity."""

    def __init__(self) -> None:
        self.asked: dict[str, list[float]] = {}
        self.first_end: list[int] = []

    async def invoke(self, request: CrystalRequest, on_text: Callable[[str], None] | None = None) -> CrystalResponse:
        """By how much was said: two messages a turn, behind the intent."""
        entity = request.messages[0].content or ""
        self.asked.setdefault(entity, []).append(time.perf_counter())
        if len(request.messages) < 2 * _TURNS - 1:
            return CrystalResponse(tool_calls=(ToolCall("t1", "bench.echo", '{"text":"hello"}'),), usage=Usage(10, 5))
        if not self.first_end:
            self.first_end = [len(times) for times in self.asked.values()]
        return CrystalResponse(content="it is done", usage=Usage(10, 5))


class CountingLeaf(BenchLeaf):
    """Notes when each conversation was answered."""

    def __init__(self) -> None:
        super().__init__()
        self.answered: dict[str, float] = {}
        self.all_answered = asyncio.Event()
        self.expected = 0

    async def deliver(self, message: Record[ChatEfferent]) -> str | None:
        """The answer of one."""
        self.answered[message.session] = time.perf_counter()
        if len(self.answered) == self.expected:
            self.all_answered.set()
        return None


def work(connection: Connection, folder: Path, profile: str) -> None:
    """As many entities as it is asked for."""
    turn_coven.run_loop(_work(connection, folder, profile))


async def _work(connection: Connection, folder: Path, profile: str) -> None:
    many: int = (await asyncio.to_thread(connection.recv))[1]
    crystal, leaf = ManyCrystal(), CountingLeaf()
    leaf.expected = many
    async with turn_coven.opened(folder, profile) as (store, server), walking(store, crystal, leaf=leaf):
        port = leaf.port
        assert port is not None
        before, cpu, server_cpu, began = _memory(), time.process_time(), cpu_of(server), time.perf_counter()
        await asyncio.gather(*(port.receive(f"room {n}", "ada", f"entity {n}") for n in range(many)))
        await leaf.all_answered.wait()
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
        server_cpu = cpu_of(server) - server_cpu
        ends = [end - began for end in leaf.answered.values()]
        waits = [b - a for times in crystal.asked.values() for a, b in pairwise(times)]
        behind = crystal.first_end + [0] * (many - len(crystal.first_end))
        assert all(len(times) == _TURNS for times in crystal.asked.values())
        connection.send(
            {
                "last began (s)": max(times[0] for times in crystal.asked.values()) - began,
                "turn of the slowest when the first has finished": float(min(behind)),
                "turn of the middle one then": percentile([float(each) for each in behind], 0.5),
                "first finished (s)": min(ends),
                "last finished (s)": max(ends),
                "between two turns, median (ms)": percentile(waits, 0.5) * 1000,
                "between two turns, longest (ms)": max(waits) * 1000,
                "CPU a turn (ms)": cpu / many / _TURNS * 1000,
                "the server's CPU a turn (ms)": server_cpu / many / _TURNS * 1000,
                "wall time a turn (ms)": took / many / _TURNS * 1000,
                "memory an entity (KB)": (_memory() - before) / many / 1000,
            }
        )


async def run(profile: Profile, scale: float) -> list[Result]:
    many = max(50, int(1000 * scale))
    seat = Seat(work, profile)
    figures: dict[str, float] = seat.ask("work", many)
    seat.close()
    name = f"{many:,} entities of {_TURNS} turns"
    first, last = figures["first finished (s)"], figures["last finished (s)"]
    return [
        alone(f"{name}, last finished", profile, "s", last, first * _SPREAD, f"{_SPREAD:g} x the first"),
        *(_row(name, what, profile, figure) for what, figure in figures.items()),
    ]


def _row(name: str, what: str, profile: Profile, figure: float) -> Result:
    what, _, unit = what.partition(" (")
    return alone(f"{name}, {what}", profile, unit.rstrip(")") or "turns", figure)


def _memory() -> int:
    """The resident memory of this process, in bytes; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
