"""A circle of gates, a host that answers them, and an entity to speak to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import structs

from branches.agents.gates import DONE, GateDefinition
from branches.agents.medium import (
    CodeOutcome,
    Finished,
    GateError,
    GateReply,
    GateValue,
    Limits,
    Sandbox,
    Seed,
)


def gate(name: str, *properties: str, required: int | None = None) -> GateDefinition:
    names = list(properties)
    schema = {"type": "object", "properties": {n: {} for n in names}, "required": names[:required]}
    return GateDefinition(name, f"what {name} does", schema)


GATES = (
    DONE,
    gate("read", "path", "limit", required=1),
    gate("echo", "value"),
    gate("fail", "name", "message"),
    gate("slow"),
    gate("fs.read_text", "path"),
    gate("call_agent", "intent", "context", "max_depth", required=1),
    gate("call_agent_batch", "calls"),
)
LIMITS = Limits(cpu_s=10.0, wall_s=60.0, memory_bytes=32 * 1024 * 1024)
BRIEF = structs.replace(LIMITS, cpu_s=0.5)  # for code that has to be stopped
SEED = Seed(1_700_000_000.0, 7)


class Circle:
    """A host: it keeps what was called, echoes, fails as asked, and is slow until it is told to go on."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self._called = asyncio.Condition()
        self.entered, self.go_on = asyncio.Event(), asyncio.Event()
        self.answer: Callable[[str, Mapping[str, Any]], Any] | None = None

    async def call(self, gate: str, arguments: Mapping[str, Any]) -> GateReply:
        self.calls.append((gate, dict(arguments)))
        async with self._called:
            self._called.notify_all()
        if gate == "done":
            return Finished()
        if gate == "fail":
            return GateError(arguments["name"], arguments["message"])
        if gate == "slow":
            self.entered.set()
            await self.go_on.wait()
        if self.answer is not None:
            reply = self.answer(gate, arguments)
            return await reply if asyncio.iscoroutine(reply) else reply
        return GateValue(arguments.get("value"))

    async def called(self, times: int) -> None:
        """Wait until so many calls have come."""
        async with self._called:
            await self._called.wait_for(lambda: len(self.calls) >= times)


class Entity:
    """A sandbox and its host, to say `await entity(code)`."""

    def __init__(self, sandbox: Sandbox, circle: Circle) -> None:
        self.sandbox, self.circle = sandbox, circle

    async def __call__(self, code: str, seed: Seed = SEED) -> CodeOutcome:
        return await self.sandbox.run(code, self.circle, seed)

    async def value(self, code: str) -> Any:
        outcome = await self(code)
        assert outcome.error is None, outcome
        return outcome.value
