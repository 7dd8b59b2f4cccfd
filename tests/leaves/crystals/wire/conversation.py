"""What is asked on the wire, and what holds of every answer."""

from __future__ import annotations

from branches.agents.crystal import (
    CrystalRequest,
    CrystalResponse,
    Message,
    validate,
)
from branches.agents.gates import DONE, GateDefinition
from leaves.crystals._remote import RemoteCrystal

READ = GateDefinition(
    name="fs.read_text",
    description="Read a file.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)
WIRE = "fs_read_text"
TOOLS = (READ, DONE)
ASKED = (Message("system", "You are terse."), Message("user", "What do a.txt and b.txt say? \u2615"))


async def ask(crystal: RemoteCrystal, request: CrystalRequest, streamed: bool) -> CrystalResponse:
    """Ask, and check what holds for every answer."""
    pieces, thoughts = list[str](), list[str]()
    hearing = (pieces.append, thoughts.append) if streamed else ()
    response = validate(await crystal.invoke(request, *hearing), request)
    if streamed:
        assert "".join(pieces) == (response.content or "")
        assert "".join(thoughts) == (response.thinking or "")
    return response


def then(messages: tuple[Message, ...], response: CrystalResponse, *more: Message) -> tuple[Message, ...]:
    """The conversation after an answer, as the loop shows it."""
    said = Message("assistant", response.content, response.tool_calls, model=response.model, opaque=response.opaque)
    results = (Message("tool", f"result of {call.arguments}", tool_call_id=call.id) for call in response.tool_calls)
    return (*messages, said, *results, *more)
