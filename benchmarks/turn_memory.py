"""What a turn costs without a server: processor time over the memory store, early and late.

Once for the entity's loop alone (a model call and a call of a gate of its own process, one episode of many turns), once
for the whole walk of a chat message over the journals of three branches, which is two model calls and a spell.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import turn_coven
from benchmarks.harness import Profile, Result, alone
from benchmarks.seats import Measured, Seat
from branches.agents.call import Call
from branches.agents.cantrip import Cantrip
from branches.agents.circle import circle
from branches.agents.crystal import CrystalRequest, CrystalResponse, ToolCall, Usage
from branches.agents.gate import Gate
from branches.agents.gates import GateDefinition
from branches.agents.wards import Ward
from coven import cast

_LIMIT = 0.5
_FLAT = 1.2


class LoopingCrystal:
    """Calls `echo` turn after turn, then `done`; notes the processor time at every hundredth."""

    def __init__(self, turns: int) -> None:
        self.turns, self.asked = turns, 0
        self.times: list[float] = []

    async def invoke(self, request: CrystalRequest, on_text: Callable[[str], None] | None = None) -> CrystalResponse:
        """By the number of the request."""
        if self.asked % 100 == 0:
            self.times.append(time.process_time())
        self.asked += 1
        gate, arguments = ("echo", '{"text":"hello"}') if self.asked <= self.turns else ("done", '{"answer":"well"}')
        return CrystalResponse(tool_calls=(ToolCall("t1", gate, arguments),), usage=Usage(prompt=10, completion=5))


async def _echo(arguments: Mapping[str, Any], use: Any) -> Any:
    return {"text": arguments["text"]}


def echo_gate() -> Gate:
    """A gate that gives the text back."""
    schema: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}}
    return Gate(GateDefinition("echo", "Give the text back.", schema), _echo, idempotent=True)


def cast_long(connection: Connection, folder: Path) -> None:
    """One episode of as many turns as it is asked for."""
    turns: int = connection.recv()[1]
    crystal = LoopingCrystal(turns)
    cantrip = Cantrip(crystal, Call(), circle(["done", echo_gate()], [Ward(max_turns=turns + 2)]))
    ended = turn_coven.run_loop(cast(cantrip, "Echo, again and again."))
    assert ended.turns == turns + 1, ended
    connection.send([(b - a) * 10 for a, b in pairwise(crystal.times)])


async def run(profile: Profile, scale: float) -> list[Result]:
    turns = max(1000, int(10_000 * scale))
    loop = Seat(cast_long)
    tenths = _tenths(loop.ask("cast", turns))
    loop.close()
    walk = Seat(turn_coven.play, "memory")
    walk.ask("advance", 100)
    walks = [_cpu(walk.measure(turns // 10)) for _ in range(10)]
    walk.close()
    return [
        alone("turn in memory, loop and gate, CPU", "memory", "ms", median(tenths), _LIMIT),
        *_flat(f"turn in memory, loop and gate, last tenth of {turns:,}", tenths),
        alone("turn in memory, chat to chat, CPU", "memory", "ms", median(walks)),
        *_flat(f"turn in memory, chat to chat, last tenth of {turns:,}", walks),
    ]


def _tenths(costs: list[float]) -> list[float]:
    size = max(1, len(costs) // 10)
    return [median(costs[start : start + size]) for start in range(0, size * 10, size)]


def _flat(name: str, tenths: list[float]) -> list[Result]:
    return [alone(name, "memory", "ms", tenths[-1], tenths[0] * _FLAT, f"{_FLAT} x the first tenth")]


def _cpu(measured: Measured) -> float:
    return measured.cpu / len(measured.took) * 1000
