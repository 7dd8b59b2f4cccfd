"""One life of a process with an entity in it: `python -m benchmarks.resumed URL TOKEN COVEN HOW TURNS LIFE`.

It tells of its steps on standard output, each with the moment and its processor seconds so far. `HOW` is `episode`, one
of so many turns, or `talk`, so many short ones; the first `LIFE` is 0. When so many turns lie behind, the crystal is
asked and never answers.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable

from benchmarks.round_trip import OneToolCrystal, walking
from benchmarks.turn_coven import SESSION, run_loop
from branches.agents.crystal import CrystalRequest, CrystalResponse, ToolCall, Usage
from journals import JetStreamStore


class MortalCrystal:
    """Answers until so many turns lie behind."""

    def __init__(self, how: str, turns: int) -> None:
        self._how, self._turns = how, turns

    async def invoke(self, request: CrystalRequest, on_text: Callable[[str], None] | None = None) -> CrystalResponse:
        """By how much was said: two messages a turn of an episode, four a turn of a talk."""
        if len(request.messages) // (2 if self._how == "episode" else 4) >= self._turns:
            _tell("asked")
            await asyncio.Event().wait()
        if self._how == "talk":
            return await OneToolCrystal().invoke(request)
        return CrystalResponse(tool_calls=(ToolCall("t1", "bench.echo", '{"text":"hello"}'),), usage=Usage(10, 5))


async def live(url: str, token: str, coven: str, how: str, turns: int, life: int) -> None:
    """Go on with what is open; in the first life, begin it."""
    async with await JetStreamStore.connect(url, coven, token=token) as store:
        _tell("connected")
        async with walking(store, MortalCrystal(how, turns), max_turns=turns + 2) as leaf:
            assert leaf.port is not None
            if life == 0:
                for _ in range(turns if how == "talk" else 0):
                    await leaf.ask(SESSION)
                await leaf.port.receive(SESSION, "ada", "please echo")
            await asyncio.Event().wait()


def _tell(step: str) -> None:
    print(step, time.monotonic(), time.process_time(), flush=True)


if __name__ == "__main__":
    _tell("imported")
    url, token, coven, how, turns, life = sys.argv[1:]
    run_loop(live(url, token, coven, how, int(turns), int(life)))
