"""Going on after `kill -9`: how long from a new process's start to the next action of an entity with 1,000 turns.

Once in the middle of one episode of 1,000 turns, which is replayed to its last turn; once behind 1,000 finished turns
of a conversation, with the next thing said and not answered. The process dies by a real SIGKILL while the crystal is
asked; the server lives on. The action is the next request to the crystal.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from statistics import median

from benchmarks.harness import Profile, Result, alone, compiled_modules, fresh_name, running_server
from journals import EmbeddedServer

_LIMIT_MS = 1000.0
_TIMES = 5
_SAID = {
    "imported": "interpreter and imports",
    "connected": "connecting",
    "asked": "reading, replaying, asking",
}


async def run(profile: Profile, scale: float) -> list[Result]:
    turns = max(100, int(1000 * scale))
    results: list[Result] = []
    with compiled_modules() as environment:
        async with running_server(profile) as server:
            for how, what in (("episode", "an episode"), ("talk", "a conversation")):
                name, coven = f"after kill -9, {what} of {turns:,} turns", fresh_name()
                lives: list[_Life] = []
                for number in range(_TIMES + 1):
                    lives.append(_Life(server, coven, how, turns, number, environment))
                    await asyncio.to_thread(lives[-1].until_killed)
                del lives[0]
                results += _steps(name, profile, "wall time", [life.wall for life in lives], _LIMIT_MS)
                results += _steps(name, profile, "CPU", [life.cpu for life in lives])
    return results


class _Life:
    """One process; it is killed as soon as it asks its crystal."""

    def __init__(
        self, server: EmbeddedServer, coven: str, how: str, turns: int, number: int, environment: dict[str, str]
    ) -> None:
        arguments = [server.url, server.token, coven, how, str(turns), str(number)]
        self._began = time.monotonic()
        command = [sys.executable, "-m", "benchmarks.resumed", *arguments]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        self.wall: dict[str, float] = {}
        self.cpu: dict[str, float] = {}

    def until_killed(self) -> None:
        """Take down what it tells of."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            step, at, cpu = line.split()
            self.wall[step], self.cpu[step] = float(at) - self._began, float(cpu)
            if step == "asked":
                self._process.kill()
        self._process.wait()
        assert "asked" in self.wall, "the process ended before it asked its crystal"


def _steps(
    name: str, profile: Profile, measure: str, lives: list[dict[str, float]], limit: float | None = None
) -> list[Result]:
    at = {step: median(life[step] for life in lives) * 1000 for step in _SAID}
    results = [alone(f"{name}, {measure}", profile, "ms", at["asked"], limit)]
    before = 0.0
    for step, said in _SAID.items():
        results.append(alone(f"{name}, {measure}: {said}", profile, "ms", at[step] - before))
        before = at[step]
    return results
