"""Delegation: what an entity asks for when it calls a child, and the circle that the child gets (COMP-1 to COMP-7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from branches.agents.gates import CALL_AGENT, CALL_AGENT_BATCH, DONE, canonical
from branches.agents.wards import Wards
from policies import Step, action_result, error_result

MAX_BATCH = 200


class ChildRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One child: its intent, and where it differs from its parent."""

    intent: str
    context: Any = None
    system_prompt: str | None = None
    gates: tuple[str, ...] | None = None
    crystal: str | None = None
    max_depth: int | None = None


def refusal(gate: str, arguments: Mapping[str, Any], available: Sequence[str]) -> str | None:
    """Why this delegation is refused before any child exists; None if it is not. A batch is judged child by child."""
    if gate == CALL_AGENT_BATCH.name:
        requests = arguments.get("requests")
        if not isinstance(requests, Sequence) or isinstance(requests, str) or len(arguments) != 1:
            return "bad_arguments: `call_agent_batch` takes `requests`, a list"
        many = len(cast("Sequence[object]", requests))
        return None if many <= MAX_BATCH else f"bad_arguments: {many} children are more than the {MAX_BATCH} allowed"
    return refused_child(arguments, available)


def refused_child(arguments: object, available: Sequence[str]) -> str | None:
    """Why this child may not be; None if it may (COMP-1: never more than its parent's gates)."""
    try:
        request = read_request(arguments)
    except msgspec.ValidationError as error:
        return f"bad_arguments: {error}"
    if not request.intent.strip():
        return "bad_arguments: intent is required"
    if request.max_depth is not None and request.max_depth < 0:
        return "bad_arguments: `max_depth` is at least 0"
    for name in map(canonical, request.gates or ()):
        if name not in available:
            return f"cannot grant gate {name!r}: you do not have it yourself; you have: {', '.join(available)}"
    return None


def read_request(arguments: object) -> ChildRequest:
    """The request. Raises `msgspec.ValidationError`; a request that is only text is its intent."""
    if isinstance(arguments, str):
        return ChildRequest(intent=arguments)
    return msgspec.convert(arguments, ChildRequest)


def child_gates(request: ChildRequest, available: Sequence[str]) -> tuple[str, ...]:
    """The names of the child's gates: those that it was granted, and always `done`."""
    if request.gates is None:
        return tuple(available)
    granted = {canonical(name) for name in request.gates} | {DONE.name}
    return tuple(name for name in available if name in granted)


def child_wards(request: ChildRequest, parent: Wards) -> Wards:
    """The child's wards: its parent's, one level less deep (COMP-6)."""
    depth = parent.max_depth - 1
    return replace(parent, max_depth=depth if request.max_depth is None else min(depth, request.max_depth))


def child_outcome(ending: Step) -> Step:
    """A child's ending as what its parent's gate gives: only one that terminated has an answer (COMP-8)."""
    payload = ending.payload
    if ending.is_error:
        return ending
    if payload["ending"] == "terminated":
        answer = payload.get("answer", payload["text"])
        told = payload["text"] if isinstance(answer, str) else answer  # a text that was cut off says so to the parent
        return action_result(CALL_AGENT.name, {"result": told})
    return error_result(CALL_AGENT.name, f"child_{payload['ending']}", payload["text"])
