"""How runs, turns and gate calls are named: everything derives from the prompt, so a restart finds it again."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from journals import derive_id

LOOP: Final = "@cantrip"
"""The policy that is the loop; `@` keeps it apart from gates."""
CRYSTAL: Final = "@crystal"
"""The policy that asks the crystal."""
CODE: Final = "@code"
"""The policy that runs code in the entity's sandbox."""

FOLD: Final = "@fold"
"""The policy that folds early turns, where need be with a crystal's summary."""

APPROVAL: Final = "@approval"
"""The policy that is a person: asked whether a gate call may be made, or something that the entity wants to know."""

DENIED: Final = "@denied"
"""The policy that stands for a gate call which a person did not approve."""

_THOUGHT: Final = ".thought"


def entity_id(instance: str, session: str) -> str:
    """The id of the entity of a session (ENTITY-2, D-008)."""
    return derive_id("entity", instance, session)


def child_id(call: str) -> str:
    """The id of the entity that a call summons."""
    return derive_id("entity", call)


@lru_cache(maxsize=1024)  # each record of an episode asks for it
def run_id(prompt_id: str) -> str:
    """The id of the run that answers a prompt: one episode."""
    return derive_id(prompt_id, "run")


def turn_key(turn: int) -> str:
    """The key of the crystal's call in a turn, counted from 1."""
    return f"turn {turn}"


def gate_key(turn: int, index: int) -> str:
    """The key of a turn's gate call, counted from 0."""
    return f"turn {turn}.{index}"


def approval_key(key: str, attempt: int) -> str:
    """The key of the question whether the gate call of this key may be made; asked again it has the next number."""
    return f"{key} approval {attempt}"


def fold_key(turn: int) -> str:
    """The key of the fold before a turn's request."""
    return f"fold {turn}"


def fold_id(run: str, turn: int) -> str:
    """The id of the fold before a turn's request."""
    return derive_id(run, fold_key(turn))


def turn_id(run: str, turn: int) -> str:
    """The id of a turn, which is that of its call of the crystal (LOOM-2)."""
    return derive_id(run, turn_key(turn))


def continued_id(turn: str, part: int) -> str:
    """The id of what goes on of a turn when children that it called have returned; `part` counts from 1."""
    return derive_id(turn, "continued", part) if part else turn


def stream_id(turn: str, attempt: int, *, thought: bool = False) -> str:
    """The id of the stream in which an attempt's text comes, or the thought before it."""
    return f"{turn}.{attempt}{_THOUGHT if thought else ''}"


def read_stream_id(stream: str) -> tuple[str, int] | None:
    """The turn and the attempt of a stream; None for one that is named by others."""
    turn, _, attempt = stream.removesuffix(_THOUGHT).rpartition(".")
    return (turn, int(attempt)) if attempt.isascii() and attempt.isdigit() else None


def gate_call_id(run: str, turn: int, index: int) -> str:
    """The id of a gate call, which is the correlation id of its `AgentToolCall`."""
    return derive_id(run, gate_key(turn, index))
