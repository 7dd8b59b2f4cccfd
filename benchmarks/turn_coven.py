"""The tool turn in Coven: the whole walk of a chat message, over an embedded server or in memory."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness import cpu_of
from benchmarks.raw import api, connected
from benchmarks.round_trip import BenchLeaf, walking
from benchmarks.seats import Measured
from branches.agents import AGENTS
from branches.chat import CHAT
from branches.spellcasting import SPELLCASTING
from journals import EmbeddedServer, JetStreamStore, MemoryStore, Store

COVEN = "turns"
SESSION = "kitchen"
BRANCHES = {"chat": CHAT, "agents": AGENTS, "spellcasting": SPELLCASTING}


def play(connection: Connection, folder: Path, profile: str) -> None:
    """One conversation on a server of its own; `profile` is its durability, or `memory`."""
    run_loop(_play(connection, folder, profile))


def run_loop(work: Coroutine[Any, Any, Any]) -> Any:
    """Run it as the command `coven` would."""
    if sys.platform == "win32":
        return asyncio.run(work)
    import uvloop

    return uvloop.run(work)


async def _play(connection: Connection, folder: Path, profile: str) -> None:
    async with opened(folder, profile) as (store, server), walking(store) as leaf:
        turns = 0
        while (asked := await asyncio.to_thread(_receive, connection)) is not None:
            what, many = asked
            if what == "hops":
                connection.send(await _hops(store))
                continue
            if what == "advance":
                many = max(0, many - turns)
            measured = await _measure(leaf, many, server)
            turns += many
            connection.send(measured)


@asynccontextmanager
async def opened(folder: Path, profile: str) -> AsyncIterator[tuple[Store, EmbeddedServer | None]]:
    """A store on a server of its own, or in memory."""
    if profile == "memory":
        yield MemoryStore(), None
        return
    durability: Any = profile
    async with (
        EmbeddedServer(folder, durability=durability) as server,
        await JetStreamStore.connect(server.url, COVEN, token=server.token) as store,
    ):
        yield store, server


async def _measure(leaf: BenchLeaf, turns: int, server: EmbeddedServer | None) -> Measured:
    stored, cpu, server_cpu = await stored_bytes(server), time.process_time(), cpu_of(server)
    took = [await leaf.ask(SESSION) for _ in range(turns)]
    cpu, server_cpu = time.process_time() - cpu, cpu_of(server) - server_cpu
    return Measured(took=took, cpu=cpu, server_cpu=server_cpu, stored=await stored_bytes(server) - stored)


async def stored_bytes(server: EmbeddedServer | None) -> int:
    """What all streams of the server hold; 0 without one."""
    if server is None:
        return 0
    async with connected(server) as client:
        return (await api(client, "INFO"))["storage"]


async def _hops(store: Store) -> dict[str, float]:
    """What lies between the records of a turn: milliseconds from one to the next, in the middle of the last 200."""
    found: list[tuple[float, str, str]] = []
    for name, manifest in BRANCHES.items():
        journal = await store.open(name, manifest.registry())
        records = [record async for record in journal.read(session=SESSION)][-2000:]
        found += [(record.time, f"{name}: {record.kind}", record.id) for record in records]
    found.sort()
    turns = [number for number, (_, what, _) in enumerate(found) if what == "chat: ChatAfferent"]
    between: defaultdict[str, list[float]] = defaultdict(list)
    for first, behind in list(pairwise(turns))[-200:]:
        for number, (before, after) in enumerate(pairwise(found[first:behind]), 1):
            between[f"{number:02} {after[1]}"].append((after[0] - before[0]) * 1000)
    return {what: median(took) for what, took in sorted(between.items()) if len(took) > 50}


def _receive(connection: Connection) -> Any:
    try:
        return connection.recv()
    except EOFError:
        return None
