"""How long the first words of a streamed answer take from the SDK to the terminal that `coven run` prompts on."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from benchmarks.harness import Profile, Result, alone, percentile
from benchmarks.terminal import coven_run
from branches.agents.permission import VARIABLE
from coven.testing.providers import ProviderServer, Reply

_MOST_MS = 50.0
_KEY = "loopback-key"
_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"
_COVEN = """
coven: first
nats: embedded
branches:
  chat: {{leaf: console, options: {{history: null}}}}
  agents:
    crystal: telling
    use: "telling.py:TellingCrystal"
    circle: {{medium: tools, gates: [done], wards: [{{max_turns: 5}}]}}
  spellcasting: {{}}
covenant:
  - ChatAfferent -> AgentPrompt
  - AgentResponse -> ChatEfferentDraft
  - AgentChunk -> ChatChunk
  - AgentStreamCompleted -> ChatStreamCompleted
  - AgentThought -> nowhere
  - {{route: AgentToolCall -> SpellInvocation, fault: AgentToolFault}}
  - SpellResult -> AgentToolResult
  - SpellFault -> AgentToolFault
"""
_CRYSTAL = """
import os
import time

from branches.secret import Secret
from leaves.crystals.anthropic import AnthropicCrystal, AnthropicOptions


class TellingCrystal:
    '''Writes down when the SDK has handed over the first text of each answer.'''

    def __init__(self, options):
        self._crystal = AnthropicCrystal(
            AnthropicOptions(base_url=os.environ["BENCH_URL"], api_key=Secret("${BENCH_KEY}", os.environ))
        )

    async def invoke(self, request, on_text=None):
        first = True

        def heard(text):
            nonlocal first
            if first:
                first = False
                with open(os.environ["BENCH_TOLD"], "a") as file:
                    print(time.monotonic(), file=file)
            on_text(text)

        return await self._crystal.invoke(request, heard)
"""


async def run(profile: Profile, scale: float) -> list[Result]:
    """Answers one after the other; the first one does not count."""
    rounds = max(5, min(len(_LETTERS) - 1, int(22 * scale)))
    with tempfile.TemporaryDirectory(prefix="coven-benchmark-") as folder:
        async with ProviderServer(key=_KEY) as server:
            delays = await _measure(Path(folder), server, rounds)
    print(json.dumps([round(delay, 2) for delay in delays]), file=sys.stderr)
    return [
        alone("first text on the console, p50", "-", "ms", percentile(delays, 0.5), _MOST_MS),
        alone("first text on the console, p90", "-", "ms", percentile(delays, 0.9), _MOST_MS),
    ]


async def _measure(folder: Path, server: ProviderServer, rounds: int) -> list[float]:
    told = folder / "told"
    (folder / "coven.yaml").write_text(_COVEN.format())
    (folder / "telling.py").write_text(_CRYSTAL)
    told.touch()
    environment = {**os.environ, "BENCH_URL": server.url, "BENCH_KEY": _KEY, "BENCH_TOLD": str(told), "TERM": "xterm"}
    environment["PROMPT_TOOLKIT_NO_CPR"] = "1"  # nobody here answers where the cursor is
    environment.pop(VARIABLE, None)
    delays: list[float] = []
    async with coven_run(folder, environment) as (_, terminal):
        await terminal.until(b"you>")
        for number in range(rounds + 1):
            word = _LETTERS[number] * 8  # a terminal is sent what has changed: no letter stands where it stood before
            server.replies = [Reply(text=f"{word} and then some more words, which need not be waited for{number:02}.")]
            terminal.type("say something\r")
            shown = await terminal.until(word.encode())
            await terminal.until(f"for{number:02}.".encode())
            await terminal.until(b"you>")
            if number:
                delays.append((shown - float(told.read_text().splitlines()[number])) * 1000)
    return delays
