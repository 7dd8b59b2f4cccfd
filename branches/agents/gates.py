"""Gates: what an entity may call across its circle's boundary, as the crystal is told about it."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec.structs import replace


class GateDefinition(msgspec.Struct, frozen=True, omit_defaults=True):
    """One gate: `parameters` is the JSON Schema of its arguments. Treat it as constant.

    What an `ephemeral` gate gives stands whole in the loom; the crystal is shown a placeholder for it (PROD-5, D-010).
    """

    name: str
    description: str
    parameters: dict[str, Any]
    ephemeral: bool = False


DONE: Final = GateDefinition(
    name="done",
    description="Finish: say that the task is complete and give the answer.",
    parameters={
        "type": "object",
        "properties": {"answer": {"description": "the final answer, as the asker will read it"}},
        "required": ["answer"],
    },
)

_REQUEST: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "intent": {"type": "string", "description": "what the child is to do"},
        "context": {"description": "data for the child; in a circle of code it is the variable `context`"},
        "system_prompt": {"type": "string", "description": "the child's system prompt; default: yours"},
        "gates": {
            "type": "array",
            "items": {"type": "string"},
            "description": "which of your gates the child has; default: all",
        },
        "crystal": {"type": "string", "description": "the name of another model for the child"},
        "max_depth": {"type": "integer", "minimum": 0, "description": "how deep the child may delegate in turn"},
    },
    "required": ["intent"],
}

CALL_AGENT: Final = GateDefinition(
    name="call_agent",
    description="Give a part of the task to a child entity with a context of its own, and wait for its answer.",
    parameters=_REQUEST,
)

CALL_AGENT_BATCH: Final = GateDefinition(
    name="call_agent_batch",
    description="Give several parts to child entities that work at the same time; the answers come in your order.",
    parameters={
        "type": "object",
        "properties": {"requests": {"type": "array", "items": _REQUEST}},
        "required": ["requests"],
    },
)


def delegating(crystals: tuple[str, ...]) -> tuple[GateDefinition, GateDefinition]:
    """`call_agent` and `call_agent_batch`, with the names of the crystals that a child may have."""
    if not crystals:
        return CALL_AGENT, CALL_AGENT_BATCH
    properties = {**_REQUEST["properties"]}
    properties["crystal"] = {**properties["crystal"], "enum": list(crystals)}
    request = {**_REQUEST, "properties": properties}
    batch = {**CALL_AGENT_BATCH.parameters, "properties": {"requests": {"type": "array", "items": request}}}
    return replace(CALL_AGENT, parameters=request), replace(CALL_AGENT_BATCH, parameters=batch)


ASK_PERSON: Final = GateDefinition(
    name="ask_person",
    description="Ask the person you work for, and wait for the answer, however long it takes.",
    parameters={
        "type": "object",
        "properties": {
            "question": {"type": "string", "description": "one clear question"},
            "choices": {
                "type": "array",
                "items": {"type": "string"},
                "description": "the answers to choose from; default: any text",
            },
        },
        "required": ["question"],
    },
)

EXECUTE: Final = "execute"
"""The one tool that a code medium offers to the crystal."""

_ALIASES: Final = {"call_entity": CALL_AGENT.name, "call_entity_batch": CALL_AGENT_BATCH.name}


def canonical(name: str) -> str:
    """The gate's name here for a name that came in as text: `call_entity` is `call_agent` (D-002)."""
    return _ALIASES.get(name, name)
