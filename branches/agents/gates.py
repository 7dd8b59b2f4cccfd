"""Gates: what an entity may call across its circle's boundary, as the crystal is told about it."""

from __future__ import annotations

from typing import Any

import msgspec


class GateDefinition(msgspec.Struct, frozen=True):
    """One gate: `parameters` is the JSON Schema of its arguments. Treat it as constant."""

    name: str
    description: str
    parameters: dict[str, Any]


DONE = GateDefinition(
    name="done",
    description="Finish: say that the task is complete and give the answer.",
    parameters={
        "type": "object",
        "properties": {"answer": {"type": "string", "description": "the final answer, as the asker will read it"}},
        "required": ["answer"],
    },
)
