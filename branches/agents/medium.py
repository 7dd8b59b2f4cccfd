"""Mediums: where an entity writes code instead of single gate calls, and how that code is run.

A `Medium` is one kind of sandbox, shared by all entities of a process. A `Sandbox` holds the variables of one entity;
what it runs reaches the world through a `Host` alone, and its clock and randomness come from a `Seed`, so that a turn
that is run again with the same recorded replies comes to the same end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol

import msgspec
from msgspec import UNSET, UnsetType

from branches.agents.gates import GateDefinition


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What the code of one turn may use. None of it can be switched off.

    `cpu_s` is the code's own time, which stands still while a gate is out; `wall_s` is all of it. `memory_bytes` holds
    for the variables of the entity and what the turn adds. Of what a turn prints, and of its value, `output_chars` are
    kept. `code_chars` and `gate_chars` bound the code itself and the arguments of one gate call as JSON.
    """

    cpu_s: float = 5.0
    wall_s: float = 900.0
    memory_bytes: int = 64 * 1024 * 1024
    output_chars: int = 20_000
    code_chars: int = 1_000_000
    gate_chars: int = 8_000_000


class Seed(msgspec.Struct, frozen=True):
    """What a turn takes for the time (Unix seconds) and for chance. A gate's reply moves the clock on."""

    now: float
    random: int


class GateValue(msgspec.Struct, frozen=True):
    """A gate's result as JSON has it; `now` is the time at which it came, if the clock of the turn is to show it."""

    value: Any = None
    now: float | None = None


class GateError(msgspec.Struct, frozen=True):
    """A gate that failed: the code can catch it, as an error of this name with this message."""

    name: str
    message: str
    now: float | None = None


class Finished(msgspec.Struct, frozen=True):
    """`done` was accepted: the code stops at this call, cannot catch it, and nothing behind it runs."""


GateReply = GateValue | GateError | Finished


class Host(Protocol):
    """How code reaches the gates of its circle."""

    async def call(self, gate: str, arguments: Mapping[str, Any]) -> GateReply:
        """Answer one gate call. `arguments` are by name and JSON; they are not yet checked against the gate's schema.

        It may take as long as it needs and may run other sandboxes of the same medium meanwhile. What it raises stops
        the code, uncatchably, comes out of `Sandbox.run`, and leaves the variables as they were before the turn.
        """
        ...


class CodeError(msgspec.Struct, frozen=True):
    """Why code stopped: the language's or the gate's name for it, and where, e.g. `line 3, column 7`."""

    name: str
    message: str
    where: str | None = None

    @property
    def text(self) -> str:
        """The error in one line."""
        return f"{self.name}: {self.message}" + (f" ({self.where})" if self.where else "")


class CodeEnding(StrEnum):
    """How a code turn ended."""

    COMPLETED = "completed"
    FINISHED = "finished"  # the gate `done` was accepted
    RAISED = "raised"  # an error that the code did not catch, or that kept it from starting
    TIMED_OUT = "timed_out"  # its own time or the whole time of the turn
    OUT_OF_MEMORY = "out_of_memory"
    CRASHED = "crashed"  # the engine could not go on


class CodeOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one code turn.

    `output` is everything printed, in order, cut to the limit (`output_cut`). `value` is that of the last expression:
    as JSON, or as text in the language's own form where JSON cannot hold it (`value_is_text`), unset if there is none.
    `error` stands unless the turn completed or finished. `restored` says that the variables are as they were before
    the turn, because the engine could not keep what the turn did with them.
    """

    ending: CodeEnding
    output: str = ""
    output_cut: bool = False
    value: Any | UnsetType = UNSET
    value_is_text: bool = False
    error: CodeError | None = None
    restored: bool = False


class SnapshotRefused(Exception):
    """A snapshot does not fit this engine: open an empty sandbox and run the recorded turns again."""

    def __init__(self, medium: str, reason: str) -> None:
        super().__init__(f"this snapshot cannot be restored by the medium {medium!r}: {reason}")
        self.medium, self.reason = medium, reason


class Sandbox(Protocol):
    """The variables of one entity. It runs one turn at a time."""

    async def run(self, code: str, host: Host, seed: Seed) -> CodeOutcome:
        """Run one turn. What code does wrong is an outcome; what the host raises comes out of here.

        Variables stay for the next turn, also after an error. Cancelled, it stops the code and the variables go back
        to what they were before the turn.
        """
        ...

    async def snapshot(self) -> bytes | None:
        """The variables between two turns, for any process with the same engine; None if it cannot tell them now."""
        ...

    async def close(self) -> None:
        """Let go of everything. Twice does no harm."""
        ...


class Medium(Protocol):
    """One kind of sandbox."""

    @property
    def name(self) -> str:
        """`javascript` or `python`."""
        ...

    def describe(self, gates: Sequence[GateDefinition]) -> str:
        """For the crystal: the language, how these gates are called, and what comes back."""
        ...

    async def open(self, gates: Sequence[GateDefinition], limits: Limits, snapshot: bytes | None = None) -> Sandbox:
        """A new sandbox, empty or with the variables of a snapshot. Its gates are these, whatever the snapshot had.

        Raises `SnapshotRefused` for a snapshot of another engine or build, and for one that is damaged.
        """
        ...

    async def close(self) -> None:
        """Close every sandbox and let go of the engine."""
        ...


def no_medium(name: str) -> Medium:
    """Where no code can be run. Raises `LookupError`."""
    raise LookupError(f"the medium {name!r} is not available here; circles with `medium: tools` are")
