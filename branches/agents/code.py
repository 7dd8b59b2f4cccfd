"""Code turns: the sandbox of one entity, and the host through which its code reaches the gates."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET

from branches.agents.circle import Circle, Done, GateCall, Observation, as_text
from branches.agents.gates import EXECUTE, GateDefinition
from branches.agents.internal import Refusal
from branches.agents.medium import (
    CodeEnding,
    CodeOutcome,
    Finished,
    GateError,
    GateReply,
    GateValue,
    Host,
    Limits,
    Medium,
    Sandbox,
    Seed,
    SnapshotRefused,
)
from branches.agents.wards import Wards
from journals import derive_id
from policies import Context, Outcome, Step

_log = logging.getLogger("coven.agents")
_MIB: Final = 1024 * 1024
Recorded = Callable[[str], Outcome | None]
"""The recorded outcome of a call, by its id."""


class PastCode(msgspec.Struct, frozen=True):
    """Code that was run in an earlier process: the call that ran it, and what is needed to run it again."""

    call: str
    code: str
    now: float
    restored: bool


class CodeRun(msgspec.Struct, frozen=True, kw_only=True):
    """What the code of one `execute` came to: what `CodeReturned` records."""

    ending: str
    output: str = ""
    value: Any = None
    error: str | None = None
    restored: bool = False
    refusals: tuple[Refusal, ...] = ()

    @property
    def finished(self) -> bool:
        """Whether it called `done`."""
        return self.ending == CodeEnding.FINISHED

    @property
    def text(self) -> str:
        """What the entity sees of it: what was printed, the value of the last expression, the error."""
        parts = [self.output.rstrip("\n")] if self.output.strip() else []
        if self.value is not None:
            parts.append(as_text(self.value))
        if self.error is not None:
            parts.append(f"Error: {self.error}")
        return "\n".join(parts) or "(no output)"


class CodeHost:
    """Answers the gate calls of one code turn: through the circle, then as calls of the turn's own scope."""

    def __init__(
        self, circle: Circle, ctx: Context, now: float, passing: Callable[[GateCall, str, Context], Awaitable[Step]]
    ) -> None:
        """`passing` lets a call through its gate, under a key of the scope, and gives its outcome."""
        self._circle, self._ctx, self._now, self._pass = circle, ctx, now, passing
        self._calls = 0
        self.refusals: list[Refusal] = []
        self.answer: Any = None

    async def call(self, gate: str, arguments: Mapping[str, Any]) -> GateReply:
        """See `Host.call`."""
        index, self._calls = self._calls, self._calls + 1
        intended = self._circle.admit(gate, arguments)
        if isinstance(intended, Done):
            self.answer = intended.answer
            return Finished()
        if isinstance(intended, Observation):
            self.refusals.append(Refusal(index, gate, intended.args, as_text(intended.result)))
            return GateError("GateError", as_text(intended.result), self._now)
        outcome = await self._pass(intended, str(index), self._ctx)
        self._now = max(self._now, self._ctx.now())
        return _reply(intended, outcome, self._now)


class _ReplayedHost:
    """Answers the gate calls of a past code turn from what is recorded. It reaches nothing."""

    def __init__(self, circle: Circle, call: str, now: float, recorded: Recorded) -> None:
        self._circle, self._call, self._now, self._recorded = circle, call, now, recorded
        self._calls = 0

    async def call(self, gate: str, arguments: Mapping[str, Any]) -> GateReply:
        index, self._calls = self._calls, self._calls + 1
        intended = self._circle.admit(gate, arguments)
        if isinstance(intended, Done):
            return Finished()
        if isinstance(intended, Observation):
            return GateError("GateError", as_text(intended.result), self._now)
        outcome = self._recorded(derive_id(self._call, str(index)))
        if outcome is None:
            return GateError("GateError", "not recorded: this call had not come to an end", self._now)
        self._now = max(self._now, outcome.time)
        return _reply(intended, outcome.steps[0], self._now)


class Workspace:
    """One entity's sandbox, whose variables last as long as the entity (CIRCLE-9).

    It is opened when code first runs, and made again from what is recorded after a restart.
    """

    def __init__(self, medium: Medium, circle: Circle, context: Any = None) -> None:
        self._medium, self.circle, self._context = medium, circle, context
        self._sandbox: Sandbox | None = None
        self._past: list[PastCode] = []
        self._kept: tuple[int, bytes] | None = None

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

    def remember(self, past: PastCode) -> None:
        """This code was run in an earlier process; it is run again, from its records, before any other."""
        self._past.append(past)

    def restore(self, call: str, variables: bytes) -> None:
        """These are the variables as the code of this call left them: nothing before it need be run again."""
        for index, past in enumerate(self._past):
            if past.call == call:
                self._kept = index + 1, variables
                return

    async def run(self, code: str, host: Host, now: float, seed: str, recorded: Recorded) -> CodeOutcome:
        """Run code. Its clock starts at `now`, its chance derives from `seed`."""
        if self._sandbox is None:
            self._sandbox = await self._open(recorded)
        return await self._sandbox.run(code, host, _seed(now, seed))

    async def snapshot(self) -> bytes | None:
        """The variables as they are now, compressed; None if the medium cannot tell."""
        taken = None if self._sandbox is None else await self._sandbox.snapshot()
        return None if taken is None else zlib.compress(taken, 1)

    async def rest(self) -> None:
        """Let go of the sandbox and keep its variables, where the medium can tell them."""
        variables = await self.snapshot()
        if variables is not None:
            self._kept = 0, variables
            await self.close()

    async def close(self) -> None:
        """Let go of the sandbox."""
        if self._sandbox is not None:
            await self._sandbox.close()
            self._sandbox = None

    async def _open(self, recorded: Recorded) -> Sandbox:
        """A sandbox with the variables that the past turns left, from the newest snapshot on."""
        gates, limits = self.circle.gates, limits_of(self.circle.wards)
        past, self._past = self._past, []
        if self._kept is not None:
            done, variables = self._kept
            try:
                sandbox = await self._medium.open(gates, limits, zlib.decompress(variables))
                return await self._again(sandbox, past[done:], recorded)
            except (SnapshotRefused, zlib.error) as refused:
                _log.warning("a snapshot is of no use, its turns are run again instead: %s", refused)
        sandbox = await self._medium.open(gates, limits)
        if self._context is not None:
            literal = msgspec.json.encode(msgspec.json.encode(self._context).decode()).decode()
            await sandbox.run(_PRELUDES[self._medium.name].format(literal), _NO_GATES, Seed(0.0, 0))
        return await self._again(sandbox, past, recorded)

    async def _again(self, sandbox: Sandbox, past: Sequence[PastCode], recorded: Recorded) -> Sandbox:
        for turn in past:
            if not turn.restored:
                host = _ReplayedHost(self.circle, turn.call, turn.now, recorded)
                await sandbox.run(turn.code, host, _seed(turn.now, turn.call))
        return sandbox


class _NoGates:
    async def call(self, gate: str, arguments: Mapping[str, Any]) -> GateReply:
        return GateError("GateError", "no gate can be called here")


_NO_GATES: Final = _NoGates()
_PRELUDES: Final = {
    "javascript": "var context = JSON.parse({0}); undefined",
    "python": "import json\ncontext = json.loads({0})\nNone",
}


def execute_tool(medium: Medium, circle: Circle) -> GateDefinition:
    """The one tool of a code medium (DESIGN 7.9): its description says how the gates are called."""
    return GateDefinition(
        EXECUTE,
        medium.describe(circle.available),
        {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]},
    )


def code_run(outcome: CodeOutcome, host: CodeHost) -> CodeRun:
    """What is recorded of an outcome."""
    error = None if outcome.error is None else outcome.error.text
    finished = outcome.ending is CodeEnding.FINISHED
    return CodeRun(
        ending=outcome.ending.value,
        output=outcome.output,
        value=host.answer if finished else None if outcome.value is UNSET else outcome.value,
        error=error,
        restored=outcome.restored,
        refusals=tuple(host.refusals),
    )


def limits_of(wards: Wards) -> Limits:
    """The limits of a sandbox under these wards."""
    default = Limits()
    return Limits(
        cpu_s=wards.max_cpu_s or default.cpu_s,
        memory_bytes=default.memory_bytes if wards.max_memory_mb is None else wards.max_memory_mb * _MIB,
        output_chars=wards.max_output_chars or default.output_chars,
    )


def _seed(now: float, text: str) -> Seed:
    return Seed(now, zlib.crc32(text.encode()))


def _reply(call: GateCall, outcome: Step, now: float) -> GateReply:
    seen = call.observation(outcome)
    return GateError("GateError", as_text(seen.result), now) if seen.is_error else GateValue(seen.result, now)
