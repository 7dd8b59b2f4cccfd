"""The workspace: the sandbox of one entity, whose variables last as long as the entity (CIRCLE-9)."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from branches.agents.circle import Circle, Done, Observation
from branches.agents.code import Recorded, gate_calls, gate_error, gate_reply
from branches.agents.gates import ASK_PERSON, EXECUTE, GateDefinition
from branches.agents.medium import (
    CodeEnding,
    CodeOutcome,
    Finished,
    GateError,
    GateReply,
    Host,
    Limits,
    Medium,
    Sandbox,
    Seed,
    SnapshotRefused,
)
from journals import derive_id

_log = logging.getLogger("coven.agents")
_MIB: Final = 1024 * 1024
_PIECE_CHARS: Final = 250_000
_SNAPSHOTS: Final = 2
_FOR_A_PERSON_S: Final = 10 * 365 * 86_400.0


class PastCode(msgspec.Struct, frozen=True):
    """Code that was run in an earlier process: the call that ran it, in which circle, and what it is run again with.

    `variables` is the snapshot that was taken behind it, if one was.
    """

    call: str
    code: str
    now: float
    restored: bool
    circle: Circle
    variables: bytes | None = None


class Workspace:
    """One entity's sandbox. It is opened when code first runs, and made again from what is recorded after a restart."""

    def __init__(self, medium: Medium, circle: Circle, context: Any = None) -> None:
        self._medium, self.circle, self._context = medium, circle, context
        self._sandbox: Sandbox | None = None
        self._past: list[PastCode] = []
        self._snapshots: list[tuple[int, bytes]] = []

    def __repr__(self) -> str:
        state = "closed" if self._sandbox is None else "open"
        return f"<Workspace {self._medium.name} {state}, {len(self._past)} past turns>"

    @property
    def medium(self) -> str:
        """The medium's name."""
        return self._medium.name

    @property
    def tool(self) -> GateDefinition:
        """The one tool that the crystal is offered."""
        return execute_tool(self._medium, self.circle)

    @property
    def has_past(self) -> bool:
        """Whether code of an earlier process is still to be run again."""
        return bool(self._past)

    def remember(self, past: PastCode) -> None:
        """This code was run in an earlier process; it, or what the newest snapshot lacks, is run again before other."""
        if past.variables is not None:
            self._snapshots = [*self._snapshots, (len(self._past) + 1, past.variables)][-_SNAPSHOTS:]
            past = msgspec.structs.replace(past, variables=None)
        self._past.append(past)

    async def run(self, code: str, host: Host, now: float, seed: str, recorded: Recorded) -> CodeOutcome:
        """Run code. Its clock starts at `now`, its chance derives from `seed`."""
        if self._sandbox is None:
            try:
                self._sandbox = await self._open(recorded)
            except _NoRoom as error:
                return error.outcome
        return await self._sandbox.run(code, host, _seed(now, seed))

    async def snapshot(self) -> bytes | None:
        """The variables as they are now; None if the medium cannot tell."""
        return None if self._sandbox is None else await self._sandbox.snapshot()

    async def rest(self) -> None:
        """Let go of the sandbox and keep its variables, where the medium can tell them."""
        variables = await self.snapshot()
        if variables is not None:
            self._snapshots = [(0, variables)]
            await self.close()

    async def close(self) -> None:
        """Let go of the sandbox."""
        if self._sandbox is not None:
            sandbox, self._sandbox = self._sandbox, None
            await sandbox.close()

    async def _open(self, recorded: Recorded) -> Sandbox:
        """A sandbox with the variables that the past turns left, from the newest snapshot on that is of use.

        What is remembered stays remembered until it is open: whoever is cut off here can begin again.
        """
        opened = _Opened(self._medium, limits_of(self.circle))
        try:
            done = await self._begin(opened)
            for turn in self._past[done:]:
                if not turn.restored:
                    await opened.enter(turn.circle)
                    host = _ReplayedHost(turn.circle, turn.call, turn.now, recorded)
                    await opened.sandbox.run(turn.code, host, _seed(turn.now, turn.call))
            await opened.enter(self.circle)
        except BaseException:
            await opened.close()
            raise
        self._past, self._snapshots = [], []
        return opened.sandbox

    async def _begin(self, opened: _Opened) -> int:
        """Open it as it was after so many of the past turns."""
        for done, variables in reversed(self._snapshots):
            before = self._past[done - 1].circle if done else self.circle
            try:
                await opened.enter(before, variables)
            except SnapshotRefused as refused:
                _log.warning("a snapshot is of no use, the turns before it are run again instead: %s", refused)
            else:
                return done
        await opened.enter(self._past[0].circle if self._past else self.circle)
        if self._context is not None:
            await self._give_context(opened.sandbox)
        return 0

    async def _give_context(self, sandbox: Sandbox) -> None:
        """The variable `context`, in pieces that fit into code. Raises `_NoRoom`."""
        text = msgspec.json.encode(self._context).decode()
        pieces = [text[at : at + _PIECE_CHARS] for at in range(0, len(text), _PIECE_CHARS)]
        first, more, last = _PRELUDES[self._medium.name]
        steps = [(more if n else first).format(msgspec.json.encode(piece).decode()) for n, piece in enumerate(pieces)]
        for step in (*steps, last):
            outcome = await sandbox.run(step, _NO_GATES, Seed(0.0, 0))
            if outcome.ending is not CodeEnding.COMPLETED:
                raise _NoRoom(outcome)


class _NoRoom(Exception):
    """The context that a child was given does not fit into its sandbox."""

    def __init__(self, outcome: CodeOutcome) -> None:
        super().__init__("the variable `context` does not fit into the sandbox")
        self.outcome = outcome


class _Opened:
    """A sandbox on its way through the circles that its entity has worked in: each has gates of its own."""

    def __init__(self, medium: Medium, limits: Limits) -> None:
        self._medium, self._limits = medium, limits
        self._gates: tuple[GateDefinition, ...] = ()
        self._sandbox: Sandbox | None = None

    @property
    def sandbox(self) -> Sandbox:
        assert self._sandbox is not None
        return self._sandbox

    async def enter(self, circle: Circle, variables: bytes | None = None) -> None:
        """Have the gates of this circle. Raises `SnapshotRefused`."""
        if self._sandbox is not None:
            if circle.gates == self._gates:
                return
            variables = await self._sandbox.snapshot()
            await self.close()
        self._sandbox = await self._medium.open(circle.gates, self._limits, variables)
        self._gates = circle.gates

    async def close(self) -> None:
        if self._sandbox is not None:
            sandbox, self._sandbox = self._sandbox, None
            await sandbox.close()


class _ReplayedHost:
    """Answers the gate calls of a past code turn from what is recorded. It reaches nothing."""

    def __init__(self, circle: Circle, call: str, now: float, recorded: Recorded) -> None:
        self._circle, self._call, self._now, self._recorded = circle, call, now, recorded
        self._calls = 0

    async def call(self, gate: str, arguments: Mapping[str, Any]) -> GateReply:
        index, self._calls = self._calls, self._calls + 1
        intended = self._circle.admit(gate, arguments)
        if isinstance(intended, Done) or index >= gate_calls(self._circle):
            return Finished()
        if isinstance(intended, Observation):
            return gate_error(intended, self._now)
        outcome = self._recorded(derive_id(self._call, str(index)))
        if outcome is None:
            return GateError("NotRecorded", "this call had not come to an end", self._now)
        self._now = max(self._now, outcome.time)
        return gate_reply(intended, outcome.steps[0], self._now)


class _NoGates:
    async def call(self, gate: str, arguments: Mapping[str, Any]) -> GateReply:
        return GateError("UnknownGate", "no gate can be called here")


_NO_GATES: Final = _NoGates()
_PRELUDES: Final = {
    "javascript": (
        "var context = {0}; undefined",
        "context += {0}; undefined",
        "context = JSON.parse(context); undefined",
    ),
    "python": ("context = {0}\nNone", "context += {0}\nNone", "import json\ncontext = json.loads(context)\nNone"),
}


def execute_tool(medium: Medium, circle: Circle) -> GateDefinition:
    """The one tool of a code medium (DESIGN 7.9): its description says how the gates are called."""
    return GateDefinition(
        EXECUTE,
        medium.describe(circle.available),
        {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]},
    )


def limits_of(circle: Circle) -> Limits:
    """The limits of a sandbox in this circle. Where a person may be asked, code waits as long as that takes."""
    default, wards = Limits(), circle.wards
    asks = bool(circle.approve) or any(gate.name == ASK_PERSON.name for gate in circle.available)
    return Limits(
        cpu_s=wards.max_cpu_s or default.cpu_s,
        wall_s=_FOR_A_PERSON_S if asks else default.wall_s,
        memory_bytes=default.memory_bytes if wards.max_memory_mb is None else wards.max_memory_mb * _MIB,
        output_chars=wards.max_output_chars or default.output_chars,
    )


def _seed(now: float, text: str) -> Seed:
    return Seed(now, zlib.crc32(text.encode()))
