"""One turn of code in a guest: what it may use, what it prints, and how it ends."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import Any, Literal, cast

import msgspec

from branches.agents.medium import CodeOutcome, Finished, GateError, GateReply, GateValue, Limits, Seed
from leaves.mediums.names import CodeGate, bind
from leaves.mediums.outcomes import Outcomes
from leaves.mediums.printed import clean
from leaves.mediums.quickjs.crossing import Crossing, Request
from leaves.mediums.quickjs.pace import Pace

Stop = Literal["done", "cpu", "wall", "abandoned"]
_GRACE_S = 0.25
_FINISHED = "[2]"
_WIDEST = 2**63
_DEPTH = 100
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')


class Turn:
    """The occupant of a guest for one turn. All but `abandon` happens on the thread that runs the guest."""

    def __init__(self, gates: Mapping[str, CodeGate], crossing: Crossing, limits: Limits, seed: Seed) -> None:
        self._gates, self._crossing, self._limits = gates, crossing, limits
        self._now = seed.now
        self._wall_end = time.monotonic() + limits.wall_s
        self._cpu_end = float("inf")
        self._closed = False
        self.outcomes = Outcomes(limits)
        self.pace = Pace()
        self.stop: Stop | None = None

    def __repr__(self) -> str:
        return f"<Turn {self.stop or 'running'} {self.outcomes!r}>"

    @property
    def wall_left(self) -> float:
        """Seconds until the turn has lasted too long."""
        return self._wall_end - time.monotonic()

    def start(self) -> None:
        """From here on the thread's time is the code's own."""
        self._cpu_end = time.thread_time() + self._limits.cpu_s

    def close(self) -> None:
        """The code is over: what its values still run when they are looked at reaches no gate."""
        self._closed = True

    def abandon(self) -> None:
        """From any thread: nobody waits for this turn any more."""
        self.stop = "abandoned"
        self._crossing.answer(None)

    def stopped(self, *, restored: bool) -> CodeOutcome:
        """The outcome of a turn that had to stop."""
        if self.stop == "done":
            return self.outcomes.finished(restored=restored)
        if self.stop == "wall":
            return self.outcomes.too_long(restored=restored)
        return self.outcomes.too_slow(restored=restored)

    def trapped(self, reason: str, *, full: bool) -> CodeOutcome:
        """The outcome of a turn whose guest is lost."""
        if self.stop is not None:
            return self.stopped(restored=True)
        if "call stack exhausted" in reason:
            return self.outcomes.crashed("RangeError", "the calls of the code went too deep")
        if full or "out of memory" in reason:
            return self.outcomes.out_of_memory()
        return self.outcomes.crashed("InternalError", "the engine failed at this code")

    # ---- what the guest calls

    def entered(self, function: str, arguments: list[str]) -> str | None:
        """A gate call, or something printed."""
        if function == "show":
            self.outcomes.printed.add(f"{json.loads(arguments[0])}\n")
            return None
        name, text = arguments
        return self._reply(name, text)

    def interrupted(self) -> bool:
        """Whether the code must stop here."""
        self.pace.check()
        if self.stop is None:
            if time.thread_time() > self._cpu_end:
                self.stop = "cpu"
            elif self.wall_left < 0:
                self.stop = "wall"
        return self.stop is not None

    def overdue(self) -> bool:
        """Whether it did not stop although it must: a built-in that never asks."""
        self.interrupted()
        return self.stop == "abandoned" or (self.stop is not None and time.thread_time() > self._cpu_end + _GRACE_S)

    def now(self) -> float:
        """The turn's clock."""
        return self._now

    # ---- gates

    def _reply(self, name: str, text: str) -> str:
        if self.stop is not None:
            return _FINISHED
        if self._closed:
            return _failed("Error", "the turn is over: no gate can be called any more")
        gate = self._gates.get(name)
        if gate is None:
            return _failed("ReferenceError", f"gate not available: {name}")
        if len(text) > self._limits.gate_chars:
            return _failed(
                "RangeError", f"{name} got {len(text)} characters of arguments; {self._limits.gate_chars} fit"
            )
        try:
            arguments = bind(gate, _values(text), {})
        except (TypeError, ValueError, RecursionError) as error:
            return _failed("TypeError", str(error))
        self.pace.give()
        reply = self._crossing.ask(Request(gate.definition.name, arguments))
        self.pace.take()
        return self._answer(reply)

    def _answer(self, reply: GateReply | None) -> str:
        match reply:
            case None:
                self.stop = self.stop or "wall"
                return _FINISHED
            case Finished():
                self.stop = "done"
                return _FINISHED
            case GateError():
                self._advance(reply.now)
                return _failed(reply.name, reply.message)
            case GateValue():
                self._advance(reply.now)
                return f"[0,{json.dumps(_plain(reply.value), allow_nan=False)}]"

    def _advance(self, now: float | None) -> None:
        if now is not None:
            self._now = max(self._now, now)


def _values(text: str) -> list[Any]:
    if _too_deep(text):
        raise TypeError("what is nested so deep cannot be sent as JSON")
    values = from_json(text)
    if not isinstance(values, list):
        raise TypeError("these arguments cannot be sent as JSON")
    return cast("list[Any]", values)


def from_json(text: str) -> Any:
    """What the guest's JSON says, as others can hold it: no half surrogate pairs, no whole numbers beyond 64 bits."""
    value = json.loads(text, parse_int=_number)
    if "\\ud" in text or "\\uD" in text:
        return json.loads(clean(json.dumps(value, ensure_ascii=False)))
    return value


def _number(digits: str) -> int | float:
    number = int(digits)
    return number if -_WIDEST <= number < _WIDEST else float(number)


def _too_deep(text: str) -> bool:
    depth = 0
    if text.count("[") + text.count("{") <= _DEPTH:
        return False
    for bracket in _BRACKETS.findall(text):
        if bracket in "[{":
            depth += 1
            if depth > _DEPTH:
                return True
        elif bracket in "]}":
            depth -= 1
    return False


def _plain(value: Any) -> Any:
    """A value of JSON's own types: a host may hand over frozen structs and mappings."""
    return msgspec.to_builtins(value, str_keys=True)


def _failed(name: str, message: str) -> str:
    return json.dumps([1, clean(name), clean(message)])
