"""Code turns: the host through which an entity's code reaches the gates, and what is recorded of it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET

from branches.agents.circle import Circle, Done, GateCall, Observation, as_text
from branches.agents.internal import Refusal
from branches.agents.medium import CodeEnding, CodeOutcome, Finished, GateError, GateReply, GateValue
from policies import Context, Outcome, Step

_CODE: Final = re.compile("[a-z][a-z0-9]*(_[a-z0-9]+)*")
GATE_CALLS: Final = 1_000
"""Gate calls that code may make in one turn, where no ward says how many: each one is recorded."""
RESTORED: Final = "The variables are what they were before this code; what its gate calls did stays."
_REFUSALS_BYTES: Final = 1024 * 1024
_REFUSAL_BYTES: Final = 1024
Recorded = Callable[[str], Outcome | None]
"""The recorded outcome of a call, by its id."""


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
            if self.restored:
                parts.append(RESTORED)
        return "\n".join(parts) or "(no output)"


class CodeHost:
    """Answers the gate calls of one code turn: through the circle, then as calls of the turn's own scope."""

    def __init__(
        self, circle: Circle, ctx: Context, now: float, passing: Callable[[GateCall, str, Context], Awaitable[Step]]
    ) -> None:
        """`passing` lets a call through its gate, under a key of the scope, and gives its outcome."""
        self._circle, self._ctx, self._now, self._pass = circle, ctx, now, passing
        self._calls, self._room, self.limit = 0, _REFUSALS_BYTES, gate_calls(circle)
        self.refusals: list[Refusal] = []
        self.answer: Any = None
        self.is_over = False
        """Whether the code was stopped because it had made all the calls that it may."""

    async def call(self, gate: str, arguments: Mapping[str, Any]) -> GateReply:
        """See `Host.call`."""
        index, self._calls = self._calls, self._calls + 1
        intended = self._circle.admit(gate, arguments)
        if isinstance(intended, Done):
            self.answer = intended.answer
            return Finished()
        if index >= self.limit:
            self.is_over = True
            return Finished()
        if isinstance(intended, Observation):
            self._refuse(Refusal(index, gate, intended.args, as_text(intended.result)))
            return gate_error(intended, self._now)
        outcome = await self._pass(intended, str(index), self._ctx)
        self._now = max(self._now, self._ctx.now())
        return gate_reply(intended, outcome, self._now)

    def _refuse(self, refusal: Refusal) -> None:
        """Keep it for the record, unless it is one of so many that they would fill the host's memory."""
        self._room -= _REFUSAL_BYTES + len(msgspec.json.encode(refusal))
        if self._room > 0:
            self.refusals.append(refusal)


def code_run(outcome: CodeOutcome, host: CodeHost) -> CodeRun:
    """What is recorded of an outcome."""
    if host.is_over:
        text = f"TooManyCalls: code may make {host.limit} gate calls in one turn, and no more; go on in the next one"
        return CodeRun(
            ending=CodeEnding.RAISED.value,
            output=outcome.output,
            error=text,
            restored=outcome.restored,
            refusals=tuple(host.refusals),
        )
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


def gate_calls(circle: Circle) -> int:
    """How many gate calls code may make in one turn in this circle. The next one stops it, as `done` would."""
    return circle.wards.max_gate_calls or GATE_CALLS


def gate_reply(call: GateCall, outcome: Step, now: float) -> GateReply:
    """What code gets of a gate's outcome."""
    seen = call.observation(outcome)
    return gate_error(seen, now) if seen.is_error else GateValue(seen.result, now)


def gate_error(seen: Observation, now: float) -> GateError:
    """A failed call as the error that code can catch: `not_found: no such file` is a `NotFound`."""
    text = as_text(seen.result)
    code, found, message = text.partition(": ")
    if found and _CODE.fullmatch(code):
        return GateError("".join(part.capitalize() for part in code.split("_")), message, now)
    return GateError("GateError", text, now)
