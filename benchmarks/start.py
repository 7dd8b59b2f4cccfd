"""How long `coven run` takes until it prompts, and until its first answer, over what the provider's SDK takes itself.

A new process each time, on a terminal, with an embedded server, at a provider's server on loopback; the first one,
which compiles the modules and makes the journals, does not count. The SDK is imported by itself in a process that does
nothing else.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import msgspec

from benchmarks.harness import Profile, Result, alone, compiled_modules, cpu_of
from benchmarks.terminal import coven_run
from branches.agents.permission import VARIABLE
from coven.testing.providers import ProviderServer, Reply

_MOST_MS = 1000.0
_TIMES = 5
_KEY = "loopback-key"
_ANSWER = "Marvellous"
_KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY")
_CRYSTALS = {
    "rehearsal": "crystal: rehearsal",
    "anthropic": 'crystal: {anthropic: {base_url: "URL"}}',
    "openai": 'crystal: {openai: {base_url: "URL/v1"}}',
    "gemini": 'crystal: {gemini: {base_url: "URL"}}',
}
_SDKS = {"anthropic": "anthropic", "openai": "openai", "gemini": "google.genai"}
_IMPORT = """
import time
began = time.perf_counter()
import {sdk}
print(time.perf_counter() - began, time.process_time())
"""
_COVEN = """
coven: start
nats: embedded
branches:
  chat: {leaf: console, options: {history: null}}
  agents: {CRYSTAL, circle: {medium: tools, gates: [done], wards: [{max_turns: 5}]}}
  spellcasting: {}
covenant:
  - ChatAfferent -> AgentPrompt
  - AgentResponse -> ChatEfferentDraft
  - AgentChunk -> ChatChunk
  - AgentStreamCompleted -> ChatStreamCompleted
  - AgentThought -> nowhere
  - {route: AgentToolCall -> SpellInvocation, fault: AgentToolFault}
  - SpellResult -> AgentToolResult
  - SpellFault -> AgentToolFault
"""


class _Started(msgspec.Struct):
    """One start, in milliseconds: wall time, and the process's own processor time, which others cannot lengthen."""

    ready: float
    ready_cpu: float
    answered: float = 0.0
    answered_cpu: float = 0.0
    sdk: float = 0.0
    sdk_cpu: float = 0.0


async def run(profile: Profile, scale: float) -> list[Result]:
    """The crystals in turn, each start followed by an import of the SDK."""
    times = max(3, int(_TIMES * scale))
    started: dict[str, list[_Started]] = {crystal: [] for crystal in _CRYSTALS}
    with compiled_modules() as environment, tempfile.TemporaryDirectory(prefix="coven-benchmark-") as base:
        environment |= dict.fromkeys(_KEYS, _KEY) | {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}
        environment.pop(VARIABLE, None)
        async with ProviderServer(key=_KEY) as server:
            for crystal in _CRYSTALS:
                _write(Path(base, crystal), crystal, server)
            for number in range(times + 1):
                for crystal, lives in started.items():
                    life = await _start(Path(base, crystal), crystal, server, environment)
                    if crystal in _SDKS:
                        life.sdk, life.sdk_cpu = await _import(_SDKS[crystal], environment)
                    if number:
                        lives.append(life)
    return [result for crystal, lives in started.items() for result in _results(crystal, lives)]


def _results(crystal: str, lives: list[_Started]) -> list[Result]:
    name = f"start with {crystal}"
    ready, cpu = median(life.ready for life in lives), median(life.ready_cpu for life in lives)
    results = [alone(f"{name}, until it prompts", "-", "ms", ready, _MOST_MS), alone(name, "-", "ms of CPU", cpu)]
    if crystal in _SDKS:
        more = median(life.answered - life.sdk for life in lives)
        more_cpu = median(life.answered_cpu - life.sdk_cpu for life in lives)
        results += [
            alone(f"import of {_SDKS[crystal]}", "-", "ms", median(life.sdk for life in lives)),
            alone(f"{name} and first answer, less that import", "-", "ms", more),
            alone(f"{name} and first answer, less that import", "-", "ms of CPU", more_cpu),
        ]
    return results


def _write(folder: Path, crystal: str, server: ProviderServer) -> None:
    folder.mkdir()
    (folder / "coven.yaml").write_text(_COVEN.replace("CRYSTAL", _CRYSTALS[crystal].replace("URL", server.url)))


async def _start(folder: Path, crystal: str, server: ProviderServer, environment: dict[str, str]) -> _Started:
    began = time.monotonic()
    async with coven_run(folder, environment) as (process, terminal):
        ready = await terminal.until(b"you>")
        life = _Started((ready - began) * 1000, cpu_of(process) * 1000)
        if crystal in _SDKS:
            server.replies = [Reply(text=f"{_ANSWER}, and some more words.")]
            asked = time.monotonic()
            terminal.type("say something\r")
            answered = await terminal.until(_ANSWER.encode())
            life.answered = life.ready + (answered - asked) * 1000
            life.answered_cpu = cpu_of(process) * 1000
        return life


async def _import(sdk: str, environment: dict[str, str]) -> tuple[float, float]:
    """The milliseconds of an import alone: wall time, and processor time with that of the interpreter."""
    command = (sys.executable, "-c", _IMPORT.format(sdk=sdk))
    process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=asyncio.subprocess.PIPE)
    told, _ = await process.communicate()
    wall, cpu = told.split()
    return float(wall) * 1000, float(cpu) * 1000
