"""The outside of a coven under load: people who write, a crystal that follows the plan in a prompt, spells on a file.

Each of them tells the world (`world.py`, in the process of the test) what it is about to do and what it has done, and
may be held there, so that a kill falls into the middle of it. What spells do is in `effects.log`: a line each.

A prompt reads `p7: once+again, write`: in its first turn two calls, in its second one, then an answer.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any, ClassVar

import msgspec

from branches.agents.crystal import CrystalError, CrystalRequest, CrystalResponse, ToolCall, Usage
from branches.chat import ChatChunk, ChatEfferent, ChatStreamCompleted
from branches.chat.leaf import ChatPort, ForkRefused
from branches.spellcasting import Casting, Spell, SpellFailed
from journals import Record

_LONGEST = 1024 * 1024


async def meet(**what: Any) -> bytes:
    """Tell the world, and go on when it says so; gives what else it says."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(os.environ["SOAK_WORLD"]))
    try:
        writer.write(msgspec.json.encode(what) + b"\n")
        return await reader.read()
    finally:
        writer.close()


def note(line: str) -> None:
    """Write one line, and let it be there whatever happens next."""
    descriptor = os.open("effects.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)


class PeopleChat:
    """A platform that keeps what people say until it was taken, and shows a message once by its id."""

    def __init__(self, options: object, name: str) -> None:
        pass

    async def run(self, port: ChatPort, ready: Callable[[], None]) -> None:
        self._port = port
        reader, writer = await asyncio.open_connection("127.0.0.1", int(os.environ["SOAK_WORLD"]), limit=_LONGEST)
        try:
            writer.write(msgspec.json.encode({"at": "chat"}) + b"\n")
            ready()
            async for line in reader:
                said = msgspec.json.decode(line)
                await self._take(port, said["conversation"], said["text"], said["id"])
                writer.write(msgspec.json.encode({"taken": said["id"]}) + b"\n")
        finally:
            writer.close()

    async def _take(self, port: ChatPort, conversation: str, text: str, id: str) -> None:
        if text == "/reset":
            await port.begin_anew(conversation, id)
        elif text == "/fork":
            try:
                await port.fork(conversation, id, back=1)
            except ForkRefused as refused:
                await meet(at="refused", id=id, reason=str(refused))
        else:
            await port.receive(conversation, "ada", text, id)

    async def show(self, chunk: Record[ChatChunk | ChatStreamCompleted]) -> None:
        """What is shown while it is being written is nothing to go by."""

    async def remind(self, message: Record[ChatEfferent]) -> None:
        """Whoever is asked says yes, as often as it is asked; the first time counts."""
        question = message.entry.question or ""
        await meet(at="question", id=message.id)
        await self._port.answer(message.session, question, "yes", "ada", f"yes to {question}")

    async def deliver(self, message: Record[ChatEfferent]) -> str | None:
        if message.entry.question is not None:
            await self.remind(message)
            return message.id
        told = {"id": message.id, "session": message.session, "text": message.entry.text}
        await meet(at="deliver", **told)
        await meet(at="delivered", **told)
        return message.id


class PlannedCrystal:
    """Does what the newest prompt says, turn by turn, and tells what came of it."""

    def __init__(self, options: object) -> None:
        pass

    async def invoke(self, request: CrystalRequest, on_text: Callable[[str], None] | None = None) -> CrystalResponse:
        messages = list(request.messages)
        newest = max(number for number, message in enumerate(messages) if message.role == "user")
        label, _, plan = (messages[newest].content or "").rpartition("ada: ")[2].partition(": ")
        since = messages[newest + 1 :]
        done = sum(1 for message in since if message.role == "assistant" and message.tool_calls)
        turns = [turn.split("+") for turn in plan.split(", ")] if plan else []
        if on_text is not None:
            on_text("I ")
        if await meet(at="ask", label=label, turn=done):
            raise CrystalError("unavailable", "it rains", status=503)
        if on_text is not None:
            on_text("go on.")
        await meet(at="asked", label=label, turn=done)
        if done < len(turns) and request.tools[0].name == "execute":
            code = _code(turns[done], f"{label}.{done}", done, "JavaScript" in request.tools[0].description)
            arguments = msgspec.json.encode({"code": code}).decode()
            calls = (ToolCall(f"{label}.{done}", "execute", arguments),)
            return CrystalResponse(tool_calls=calls, usage=Usage(prompt=10, completion=5))
        if done < len(turns):
            calls = tuple(_call(spell, f"{label}.{done}.{number}") for number, spell in enumerate(turns[done]))
            return CrystalResponse(content="I go on.", tool_calls=calls, usage=Usage(prompt=10, completion=5))
        between = "; " if "." in label else " | "  # a child's answer is one result of its parent's call
        results = between.join(message.content or "" for message in since if message.role == "tool")
        return CrystalResponse(content=f"{label}: {results}", usage=Usage(prompt=20, completion=9))


def _call(spell: str, name: str) -> ToolCall:
    """The call of this name."""
    gate, arguments = _gate(spell, name)
    return ToolCall(name, gate, msgspec.json.encode(arguments).decode())


def _gate(spell: str, name: str) -> tuple[str, dict[str, str]]:
    """What is called. A child is asked to do one thing that must not be done twice, and one that may."""
    match spell:
        case "child":
            return "call_agent", {"intent": f"{name}: once, again"}
        case "write":
            return "fs.write_text", {"path": f"{name}.txt", "text": name}
        case _:
            return f"soak.{spell}", {"text": name}


def _code(spells: list[str], name: str, step: int, is_javascript: bool) -> str:
    """A program that makes these calls, says what came of each, and counts the steps of its episode in a variable."""
    if is_javascript:
        parts = ["steps = steps + 1;" if step else "var steps = 1;"]
    else:
        parts = ["steps = steps + 1" if step else "steps = 1"]
    for number, spell in enumerate(spells):
        gate, arguments = _gate(spell, f"{name}.{number}")
        failed = msgspec.json.encode(f"{name}.{number} failed: ").decode()
        if is_javascript:
            call = f"{gate}({msgspec.json.encode(arguments).decode()})"
            parts.append(f"try {{ print({call}); }} catch (e) {{ print({failed} + e.message); }}")
        else:
            given = ", ".join(f"{key}={msgspec.json.encode(value).decode()}" for key, value in arguments.items())
            parts.append(f"try:\n    print({gate}({given}))\nexcept Exception as e:\n    print({failed} + str(e))")
    parts.append('print("step " + steps)' if is_javascript else 'print("step " + str(steps))')
    return "\n".join(parts)


class Once(Spell, frozen=True, kw_only=True):
    """Do something that must not be done twice."""

    full_name: ClassVar[str] = "soak.once"
    text: str


class Again(Spell, frozen=True, kw_only=True):
    """Do something that may be done again."""

    full_name: ClassVar[str] = "soak.again"
    idempotent: ClassVar[bool] = True
    text: str


class Refused(Spell, frozen=True, kw_only=True):
    """Do something that is always refused."""

    full_name: ClassVar[str] = "soak.refused"
    text: str


class SoakSubstrate:
    spells = (Once, Again, Refused)

    def __init__(self, options: object) -> None:
        pass

    async def cast(self, spell: Spell, casting: Casting) -> Any:
        await meet(at="cast", id=casting.id)
        if isinstance(spell, Refused):
            raise SpellFailed("denied", f"refused {spell.text}")
        assert isinstance(spell, Once | Again)
        note(f"{spell.name()} {casting.id} {spell.text}")
        await meet(at="done", id=casting.id)
        return f"did {spell.text}"

    async def close(self) -> None:
        pass
