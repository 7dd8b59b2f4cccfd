"""A turn of code with one gate call: through a medium, of a whole entity, and in the bare engine doing the same."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pydantic_monty import AsyncMonty
from quickjs_rs import Runtime

from benchmarks.harness import Profile, Result, alone, compare, take_turns
from branches.agents.call import Call
from branches.agents.cantrip import Cantrip
from branches.agents.circle import circle
from branches.agents.crystal import CrystalRequest, CrystalResponse, ToolCall
from branches.agents.gate import Gate
from branches.agents.gates import GateDefinition
from branches.agents.medium import GateReply, GateValue, Limits, Medium, Sandbox, Seed
from branches.agents.wards import Ward
from coven import cast
from leaves.mediums.javascript import JavaScript
from leaves.mediums.python import Python

_TURNS = 50
_WARM_UP = 10
_MOST_ON_TOP_MS = 1.0
_SANDBOXES = 200
_READ = GateDefinition(
    "read", "read a file", {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
)
_BARE_LIMITS: Any = {"max_memory": Limits().memory_bytes, "max_feed_duration_secs": 5.0, "max_suspensions": 10**6}
_CODE = {
    "javascript": "var n = (globalThis.n ?? 0) + read('notes.md').length; n",
    "python": "n = len(read('notes.md'))\nn",
}
_TEXT = "what stands in the file"


class _Files:
    async def call(self, gate: str, arguments: Mapping[str, Any]) -> GateReply:
        return GateValue(_TEXT)


def _ours(sandbox: Sandbox, code: str) -> Callable[[], Awaitable[float]]:
    async def turns() -> float:
        began = time.perf_counter()
        for number in range(_TURNS):
            await sandbox.run(code, _Files(), Seed(0.0, number))
        return (time.perf_counter() - began) / _TURNS * 1000

    return turns


async def _javascript_bare() -> Callable[[], Awaitable[float]]:
    context = Runtime(memory_limit=Limits().memory_bytes).new_context(timeout=5.0)
    context.register("__read", lambda text: json.dumps({"value": _TEXT, "of": json.loads(text)}))
    context.eval("globalThis.read = (...a) => JSON.parse(__read(JSON.stringify(a))).value; 0")

    async def turns() -> float:
        began = time.perf_counter()
        for _ in range(_TURNS):
            context.eval(_CODE["javascript"])
        return (time.perf_counter() - began) / _TURNS * 1000

    return turns


class _Coder:
    """Says the same code turn after turn, then is done; notes the processor time of each request."""

    def __init__(self, code: str) -> None:
        self._code, self.times = code, list[float]()

    async def invoke(self, request: CrystalRequest, on_text: Callable[[str], None] | None = None) -> CrystalResponse:
        self.times.append(time.process_time())
        code = self._code if len(self.times) <= _WARM_UP + _TURNS else "done(1)"
        return CrystalResponse(tool_calls=(ToolCall("t1", "execute", json.dumps({"code": code})),))


async def _entity(medium: str) -> float:
    """Milliseconds of our processor time that a turn takes: crystal, code, gate, and all that is recorded of them."""
    crystal = _Coder(_CODE[medium])

    async def read(arguments: Mapping[str, Any], use: Any) -> Any:
        return _TEXT

    made = circle(["done", Gate(_READ, read, idempotent=True)], [Ward(max_turns=_WARM_UP + _TURNS + 1)], medium)
    ended = await cast(Cantrip(crystal, Call(), made), "Read it, again and again.")
    assert ended.answer == 1, ended
    return (crystal.times[-1] - crystal.times[_WARM_UP]) / _TURNS * 1000


async def _cpu(bare: Callable[[], Awaitable[float]]) -> float:
    """The same of the bare engine."""
    began = time.process_time()
    await bare()
    return (time.process_time() - began) / _TURNS * 1000


async def _measure(medium: Medium, bare: Callable[[], Awaitable[float]], scale: float) -> list[Result]:
    sandbox = await medium.open([_READ], Limits())
    contestants = {"coven": _ours(sandbox, _CODE[medium.name]), "the bare engine": bare}
    figures = await take_turns(contestants, max(3, int(20 * scale)))
    name = f"code turn, {medium.name}"
    on_top = statistics.median(a - b for a, b in zip(figures["coven"], figures["the bare engine"], strict=True))
    many: list[Any] = [await medium.open([_READ], Limits()) for _ in range(max(5, int(_SANDBOXES * scale)))]
    await asyncio.gather(*(each.run(_CODE[medium.name], _Files(), Seed(0.0, 0)) for each in many))
    held = statistics.mean(each.memory_bytes for each in many) / 1024
    cold = statistics.median(sorted(each.memory_bytes for each in many)[: len(many) // 2]) / 1024
    await medium.close()
    whole = [await _entity(medium.name) - await _cpu(bare) for _ in range(max(3, int(10 * scale)))]
    return [
        *compare(name, "-", "ms", figures, {}, better="lower"),
        alone(f"{name}: on top", "-", "ms", on_top, _MOST_ON_TOP_MS),
        alone(
            f"{name}: a whole turn of an entity on top, CPU", "memory", "ms", statistics.median(whole), _MOST_ON_TOP_MS
        ),
        alone(f"{name}: memory a sandbox", "-", "KB", held),
        alone(f"{name}: memory a sandbox at rest", "-", "KB", cold),
    ]


async def run(profile: Profile, scale: float) -> list[Result]:
    """Both mediums; an entity lives over the memory store."""
    results = await _measure(JavaScript(), await _javascript_bare(), scale)
    async with AsyncMonty(min_processes=1) as pool, pool.checkout(limits=_BARE_LIMITS) as session:

        async def read(path: str) -> str:
            return _TEXT

        async def turns() -> float:
            began = time.perf_counter()
            for _ in range(_TURNS):
                await session.feed_run("n = len(await read('notes.md'))\nn", external_lookup={"read": read})
            return (time.perf_counter() - began) / _TURNS * 1000

        return results + await _measure(Python(), turns, scale)
