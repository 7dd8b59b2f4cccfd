"""A long life with folding on: what turn 10,000 costs beside turn 10, and where the stored bytes go.

One conversation of 10,000 turns, chat to chat, each of which says something new in about 2 KB. At its end it takes
turns with conversations that are young; then what the server has stored is counted, kind by kind.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import turn_coven
from benchmarks.harness import Profile, Result, alone, cpu_of
from benchmarks.round_trip import BenchLeaf, walking
from benchmarks.seats import Seat
from branches.agents.crystal import CrystalRequest, CrystalResponse, ToolCall, Usage
from branches.agents.folding import Folding
from journals import EmbeddedServer, Store

_LIMIT = 1.2
_ROUNDS, _YOUNG, _MEASURED = 10, 10, 20
_WORDS = (
    "the",
    "keeper",
    "of",
    "this",
    "house",
    "asks",
    "what",
    "lies",
    "on",
    "a",
    "table",
    "and",
    "who",
    "left",
    "it",
)


class Talkative:
    """Makes up what is said: a question, the arguments of a call, an answer. Counts their bytes in `said`."""

    def __init__(self) -> None:
        self._draws = random.Random(7)
        self.said = 0

    def words(self, characters: int) -> str:
        """Text of about this length."""
        text = ""
        while len(text) < characters:
            text += f"{self._draws.choice(_WORDS)} "
        self.said += len(text)
        return text

    async def invoke(self, request: CrystalRequest, on_text: Callable[[str], None] | None = None) -> CrystalResponse:
        """A call after a question, and an answer after its result."""
        if request.messages[-1].role == "tool":
            return CrystalResponse(content=self.words(500), usage=Usage(prompt=1000, completion=100))
        arguments = json.dumps({"text": self.words(700)}, separators=(",", ":"))
        self.said += 700  # the gate gives the text back, and that is said too
        return CrystalResponse(tool_calls=(ToolCall("t1", "bench.echo", arguments),), usage=Usage(1000, 100))


def live(connection: Connection, folder: Path, profile: str) -> None:
    """A life of as many turns as it is asked for."""
    turn_coven.run_loop(_live(connection, folder, profile))


async def _live(connection: Connection, folder: Path, profile: str) -> None:
    turns: int = (await asyncio.to_thread(connection.recv))[1]
    crystal = Talkative()
    folding = Folding(trigger_after_turns=40, keep_turns=10)
    async with turn_coven.opened(folder, profile) as (store, server):
        async with walking(store, crystal, folding=folding) as leaf:
            await _talk(leaf, crystal, "old", turns)
            said = crystal.said
            kinds, stored = await _counted(store), await turn_coven.stored_bytes(server)
            rounds = [await _round(leaf, crystal, server, number) for number in range(_ROUNDS)]
        connection.send({"said": said / turns, "stored": stored / turns, "kinds": kinds, "rounds": rounds})


async def _round(leaf: BenchLeaf, crystal: Talkative, server: EmbeddedServer | None, number: int) -> Any:
    """The young conversation at its tenth turn, and the old one; milliseconds, CPU of all, and bytes a turn."""
    await _talk(leaf, crystal, f"young {number}", _YOUNG)
    figures: dict[str, list[float]] = {}
    for session in (f"young {number}", "old"):
        stored, cpu = await turn_coven.stored_bytes(server), time.process_time() + cpu_of(server)
        took = await _talk(leaf, crystal, session, _MEASURED)
        cpu = time.process_time() + cpu_of(server) - cpu
        stored = await turn_coven.stored_bytes(server) - stored
        figures[session.split()[0]] = [median(took), cpu / _MEASURED * 1000, stored / _MEASURED]
    return figures


async def _talk(leaf: BenchLeaf, crystal: Talkative, session: str, turns: int) -> list[float]:
    return [await leaf.ask(session, crystal.words(150)) for _ in range(turns)]


async def _counted(store: Store) -> dict[str, list[float]]:
    """By journal and kind: how many, and the bytes of subjects, of headers, and of bodies."""
    counted: dict[str, list[float]] = {}
    for name, manifest in turn_coven.BRANCHES.items():
        journal = await store.open(name, manifest.registry())
        async for group in journal.log.read(None, 0, None):
            for stored in group:
                kind = f"{name}: {stored.headers.get('Coven-Kind', 'cursor of a route')}"
                row = counted.setdefault(kind, [0, 0, 0, 0])
                headers = sum(len(key) + len(value) + 4 for key, value in stored.headers.items()) + 12
                for column, count in enumerate((1, len(stored.subject), headers, len(stored.body))):
                    row[column] += count
    return counted


async def run(profile: Profile, scale: float) -> list[Result]:
    turns = max(200, int(10_000 * scale))
    seat = Seat(live, profile)
    figures = seat.ask("live", turns)
    seat.close()
    results: list[Result] = []
    for number, (what, unit) in enumerate((("wall time", "ms"), ("CPU", "ms"), ("stored", "B"))):
        old = [each["old"][number] for each in figures["rounds"]]
        young = [each["young"][number] for each in figures["rounds"]]
        results.append(
            Result(
                benchmark=f"folded, turn {turns:,}, {what}",
                profile=profile,
                unit=unit,
                ours=median(old),
                other=f"turn {_YOUNG}",
                others=median(young),
                ratio=median(a / b for a, b in zip(old, young, strict=True)),
                wanted=_LIMIT,
                better="lower",
            )
        )
    said, kinds = figures["said"], figures["kinds"]
    results.append(_against("folded, stored a turn", profile, figures["stored"], "what was said", said))
    explained = Counter[str]()
    for kind, (many, subjects, headers, bodies) in kinds.items():
        explained.update({"subjects": subjects, "headers": headers, "bodies": bodies, "messages": many})
        if (subjects + headers + bodies) / turns > 1:
            whole = (subjects + headers + bodies) / turns
            results.append(_against(f"folded, stored a turn, {kind}", profile, whole, "its body", bodies / turns))
    counted = sum(explained[part] for part in ("subjects", "headers", "bodies"))
    explained["the server's own"] = int(figures["stored"] * turns - counted)
    results += [
        alone(f"folded, stored a turn, {part}", profile, "" if part == "messages" else "B", count / turns)
        for part, count in explained.items()
    ]
    return results


def _against(name: str, profile: Profile, ours: float, other: str, others: float) -> Result:
    ratio = ours / others if others else 0.0
    return Result(
        benchmark=name, profile=profile, unit="B", ours=ours, other=other, others=others, ratio=ratio, better="lower"
    )
