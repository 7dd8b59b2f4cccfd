"""Leaves for the crash tests: a chat that asks one thing, a crystal that wants two tools, and tools that are counted.

What they did in the world is in `effects.log`, one line each: nothing else survives a kill.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any, ClassVar

from branches.agents.crystal import CrystalRequest, CrystalResponse, ToolCall, Usage
from branches.chat import ChatEfferent
from branches.chat.leaf import ChatPort
from branches.spellcasting import Casting, Spell
from journals import Record


def note(line: str) -> None:
    """Write one line, and let it be there whatever happens next."""
    descriptor = os.open(os.environ["PROBE_EFFECTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)


def delivered_before() -> bool:
    """Whether an earlier run has delivered the answer."""
    with open(os.environ["PROBE_EFFECTS"], encoding="utf-8") as effects:
        return any(line.startswith("delivered") for line in effects)


class Once(Spell, frozen=True, kw_only=True):
    """Do something that must not be done twice."""

    full_name: ClassVar[str] = "probe.once"
    text: str


class Again(Spell, frozen=True, kw_only=True):
    """Look at something; looking again does no harm."""

    full_name: ClassVar[str] = "probe.again"
    idempotent: ClassVar[bool] = True
    text: str


class ProbeSubstrate:
    spells = (Once, Again)

    def __init__(self, options: object) -> None:
        pass

    async def cast(self, spell: Spell, casting: Casting) -> Any:
        note(f"cast {spell.name()} {casting.id}")
        return {"done": spell.name()}

    async def close(self) -> None:
        pass


class ProbeCrystal:
    """Asks for both tools in one utterance, then says what came of them."""

    def __init__(self, options: object) -> None:
        pass

    async def invoke(self, request: CrystalRequest, on_text: Callable[[str], None] | None = None) -> CrystalResponse:
        results = [message.content or "" for message in request.messages if message.role == "tool"]
        note(f"asked {len(request.messages)}")
        if results:
            return CrystalResponse(content=" and ".join(results), usage=Usage(prompt=20, completion=9))
        calls = (ToolCall("t1", "probe.once", '{"text":"a"}'), ToolCall("t2", "probe.again", '{"text":"b"}'))
        return CrystalResponse(content="I will do both.", tool_calls=calls, usage=Usage(prompt=10, completion=5))


class ProbeChat:
    """Says the same message at every start, as a platform redelivers; finished once it has its answer."""

    def __init__(self, options: object, name: str) -> None:
        self._delivered = asyncio.Event()

    async def run(self, port: ChatPort, ready: Callable[[], None]) -> None:
        ready()
        await port.receive("kitchen", "ada", "do both", message_id="m-1")
        note("received")
        if not delivered_before():
            await self._delivered.wait()

    async def deliver(self, message: Record[ChatEfferent]) -> str | None:
        note(f"delivered {message.id}")
        self._delivered.set()
        return None


class ApprovingChat(ProbeChat):
    """The same with a person who says yes to every question, also when it is shown again."""

    async def run(self, port: ChatPort, ready: Callable[[], None]) -> None:
        self._port = port
        await super().run(port, ready)

    async def deliver(self, message: Record[ChatEfferent]) -> str | None:
        if message.entry.question is None:
            return await super().deliver(message)
        await self.remind(message)
        return None

    async def remind(self, message: Record[ChatEfferent]) -> None:
        question = message.entry.question or ""
        note(f"questioned {message.entry.text}")
        await self._port.answer(message.session, question, "yes", "ada", f"yes to {question}")
