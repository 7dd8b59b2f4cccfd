"""One utterance and what came of it, as its records tell; and the turns that this makes.

It makes one turn, and one more for each delegation: a delegation closes a turn, and what the same utterance does after
the children have returned is the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from branches.agents.circle import CodeCall, Done, GateCall, Observation
from branches.agents.crystal import ToolCall, Usage
from branches.agents.gates import DONE
from branches.agents.internal import AgentUtterance, CodeReturned, CrystalFailed
from branches.agents.loom._run import Run
from branches.agents.loom._turn import Turn, TurnMetadata
from branches.agents.naming import continued_id, gate_call_id, turn_id
from branches.agents.steps import code_run_of
from policies import InvalidPayload, Step, freeze

Said = AgentUtterance | CrystalFailed
_NO_USAGE = Usage()


class Ending(msgspec.Struct, frozen=True):
    """How an episode ended."""

    how: str
    reason: str | None
    result: Any


class Made(msgspec.Struct):
    """A gate call that was recorded, and its outcome with the part in which it came."""

    gate: str
    arguments: Mapping[str, Any]
    outcome: Step | None = None
    part: int = 0


class Part:
    """The time between two delegations, and what was observed in it. `position` is where it began."""

    def __init__(self, sequence: int, parent: str | None, position: int, began: float, ended: float) -> None:
        self.sequence, self.parent, self.position, self.began, self.ended = sequence, parent, position, began, ended
        self.calls: list[Observation] = []
        self.told: list[str] = []
        self.thrown: list[str] = []

    def observe(self, observation: Observation) -> None:
        """The entity sees this."""
        self.calls.append(observation)
        self.told.append(observation.text)

    def clear(self) -> None:
        """Forget what was observed, to read it anew."""
        self.calls, self.told, self.thrown = [], [], []


class Draft:
    """An utterance that is being put together; None for an episode that ended before there was one.

    `folded` are the tokens of the summary that was made before it was asked for.
    """

    def __init__(self, run: Run, said: Said | None, position: int, time: float, folded: Usage = _NO_USAGE) -> None:
        self.run, self._number = run, 1 if said is None else said.turn
        self.id = turn_id(run.id, self._number)
        self._said = said if isinstance(said, AgentUtterance) else None
        self._usage = folded if said is None else folded + said.usage
        self._error = f"{said.code}: {said.error}" if isinstance(said, CrystalFailed) else None
        self._intent, self._images = run.take_intent()
        self._made: dict[str, Made] = {}
        self._in_code: dict[str, list[Made]] = {}
        self._returned: dict[str, tuple[CodeReturned, int]] = {}
        self._parts: list[Part] = []
        self._ending: Ending | None = None
        self._turns: tuple[Turn, ...] | None = None
        self._begin(position, time - (0 if said is None else said.duration_ms) / 1000, time)

    def __repr__(self) -> str:
        return f"<Draft of turn {self._number} of {self.run!r}, {len(self._parts)} parts>"

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """What the utterance calls."""
        return () if self._said is None else self._said.tool_calls

    @property
    def newest(self) -> int:
        """The number of its newest part, counted from 0."""
        return len(self._parts) - 1

    @property
    def newest_id(self) -> str:
        """The id of its newest turn."""
        return self.part_id(self.newest)

    def call_id(self, index: int) -> str:
        """The id of one of its tool calls, counted from 0."""
        return gate_call_id(self.run.id, self._number, index)

    def part_id(self, part: int) -> str:
        """The id of a part's turn."""
        return continued_id(self.id, part)

    def part_at(self, position: int) -> int:
        """The part that was the newest at a position of the journal."""
        return max((number for number, part in enumerate(self._parts) if part.position <= position), default=0)

    def make(self, id: str, call: Made, code: str | None) -> None:
        """A gate call is recorded; one that code makes, with the id of that code's own call."""
        if code is None:
            self._made[id] = call
        else:
            self._in_code.setdefault(code, []).append(call)

    def go_on(self, position: int, time: float) -> None:
        """The children have returned: what follows belongs to the next turn."""
        self._touch(time)
        self._begin(position, time, time)

    def settle(self, call: Made, outcome: Step, time: float) -> None:
        """A call has its outcome."""
        call.outcome, call.part = outcome, self.newest
        self._touch(time)

    def returned(self, code: str, entry: CodeReturned, time: float) -> None:
        """The code of a tool call has come to its end."""
        self._returned.setdefault(code, (entry, self.newest))
        self._touch(time)

    def end(self, ending: Ending, time: float) -> None:
        """The episode ends with this turn."""
        self._ending = ending
        self._touch(time)

    def turns(self) -> tuple[Turn, ...]:
        """Its turns, as far as they are recorded."""
        if self._turns is None:
            for part in self._parts:
                part.clear()
            self._read()
            self._turns = tuple(self._turn(number, part) for number, part in enumerate(self._parts))
        return self._turns

    def _begin(self, position: int, began: float, time: float) -> None:
        sequence, parent = self.run.entity.next_turn()
        self._parts.append(Part(sequence, parent, position, began, time))
        self.run.entity.last = self.newest_id
        self._turns = None

    def _touch(self, time: float) -> None:
        part = self._parts[-1]
        part.ended = max(part.ended, time)
        self._turns = None

    def _read(self) -> None:
        """What each tool call came to, in its order. What never left the circle is read from the utterance again."""
        part, waiting = self._parts[0], False
        finish = None if self._said is None else self._said.finish
        read = self.run.circle.read_all(self.tool_calls, finish)
        for index, (call, intended) in enumerate(zip(self.tool_calls, read, strict=True)):
            if isinstance(intended, CodeCall):
                part = self._read_code(intended, self.call_id(index), part)
            elif isinstance(intended, GateCall):
                made = self._made.get(self.call_id(index))
                if made is None or made.outcome is None:
                    waiting = True
                    continue
                part = self._parts[made.part]
                part.observe(intended.observation(made.outcome))
            elif not waiting:
                part.observe(intended.observation if isinstance(intended, Done) else _with_arguments(intended, call))
            if isinstance(intended, Done):
                break  # what stands behind it was never made: it is in the utterance, and no gate call (D-003)

    def _read_code(self, call: CodeCall, id: str, part: Part) -> Part:
        """The gate calls of code, in their order, and what it came to; gives the part in which it stands."""
        entry, where = self._returned.get(id, (None, 0))
        refusals = {} if entry is None else {refusal.index: refusal for refusal in entry.refusals}
        made = self._in_code.get(id, [])
        waiting = iter(made)
        for number in range(len(made) + len(refusals)):
            refusal = refusals.get(number)
            if refusal is not None:
                args = cast("Mapping[str, Any]", frozen(refusal.arguments))
                part.calls.append(Observation(gate=refusal.gate, args=args, result=refusal.reason, is_error=True))
            elif (passed := next(waiting, None)) is not None and passed.outcome is not None:
                part = self._parts[passed.part]
                seen = GateCall(ToolCall("", passed.gate), frozen(passed.arguments)).observation(passed.outcome)
                part.calls.append(replace(seen, tool_call_id=None))
        if entry is not None:
            part, run = self._parts[where], code_run_of(entry)
            if run.finished:
                answer = frozen(run.value)
                part.calls.append(Observation(gate=DONE.name, args=freeze({"answer": answer}), result=answer))
            part.told.append(call.observation(run.text, is_error=run.error is not None).text)
            part.thrown += [] if run.error is None else [run.error]
        return part

    def _turn(self, number: int, part: Part) -> Turn:
        ending = self._ending if number == self.newest else None
        said = self._said if number == 0 else None
        usage = self._usage if number == 0 else _NO_USAGE
        how = None if ending is None else ending.how
        return Turn(
            id=self.part_id(number),
            parent_id=part.parent,
            cantrip_id=self.run.call.cantrip_id,
            entity_id=self.run.entity.id,
            sequence=part.sequence,
            utterance="" if said is None else self._utterance(said),
            observation="\n".join(part.told),
            gate_calls=tuple(part.calls),
            metadata=TurnMetadata(
                tokens_prompt=usage.prompt,
                tokens_completion=usage.completion,
                tokens_cached=usage.cached,
                duration_ms=round((part.ended - part.began) * 1000, 3),
                timestamp=datetime.fromtimestamp(part.began, UTC).isoformat(),
            ),
            terminated=how == "terminated",
            truncated=how == "truncated",
            ending=how,
            reason=None if ending is None else self._error or ending.reason,
            result=None if ending is None else frozen(ending.result),
            error="\n".join(part.thrown) or (self._error if number == 0 else None),
            intent=self._intent if number == 0 else None,
            images=self._images if number == 0 else (),
            session=self.run.session,
            model=None if said is None else said.model,
            finish=None if said is None else said.finish,
        )

    def _utterance(self, said: AgentUtterance) -> str:
        """What the entity wrote, its code included: that stands in the tool calls."""
        read = (self.run.circle.read(call) for call in said.tool_calls)
        codes = (call.code for call in read if isinstance(call, CodeCall))
        return "\n\n".join(filter(None, (said.content, *codes)))


def _with_arguments(refused: Observation, call: ToolCall) -> Observation:
    """A call that was refused before anybody read its arguments, with them."""
    try:
        args = freeze(msgspec.json.decode(call.arguments))
    except (msgspec.DecodeError, RecursionError, InvalidPayload):
        return refused
    return replace(refused, args=args) if isinstance(args, Mapping) else refused


def frozen(value: object) -> Any:
    """The JSON value, so that nobody can change it; one nested too deep for that stays as it is."""
    try:
        return freeze(value)
    except InvalidPayload:
        return value
