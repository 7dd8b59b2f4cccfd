"""An entity's context: the messages that the crystal is shown, a fold of the session's records.

The running loop and the fold of finished episodes make it by the same few steps, so that after a restart the crystal
is shown exactly what it would have been shown without.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from branches.agents.budget import size
from branches.agents.circle import Circle, CodeCall, Done, GateCall, Observation
from branches.agents.code import PastCode, Workspace
from branches.agents.codec import code_run_of, gate_outcome, utterance_in
from branches.agents.crystal import Message, ToolCall
from branches.agents.entries import AgentToolFault, AgentToolResult
from branches.agents.internal import (
    AgentUtterance,
    CodeReturned,
    EntityCast,
    EntityReturned,
    GateReturned,
    SandboxKept,
)
from branches.agents.naming import gate_call_id
from journals import Entry, Record
from policies import Outcome, Snapshot

NUDGE = "Go on. When the task is complete, call the gate `done` with your answer."
_NOT_RUN = "not_run: the episode ended before this call"
_encoder = msgspec.json.Encoder()


class EntityContext:
    """The messages of one entity, growing by one at a time; `digest` is a running hash of all that a request shows."""

    def __init__(self) -> None:
        self._cast: EntityCast | None = None
        self._messages: list[Message] = []
        self._hash = b""
        self._unanswered: list[ToolCall] = []
        self._ephemeral: frozenset[str] = frozenset()
        self.characters = 0

    def __repr__(self) -> str:
        return f"<EntityContext of {len(self._messages)} messages, {self.digest[:8]}>"

    @property
    def messages(self) -> Snapshot[Message]:
        """What was said so far, as it stands now."""
        return Snapshot(self._messages)

    @property
    def digest(self) -> str:
        """The digest of call, gates and messages."""
        return self._hash.hex()

    def begin(self, cast: EntityCast, intent: str, context: object = None) -> None:
        """An episode begins: the intent comes as a user message, under this call (INTENT-2, CALL-2).

        `context` is data for a child that has no variables: a second system message, right after the call's.
        """
        self.close()
        if cast != self._cast:
            self._recast(cast)
        if context is not None:
            self._add(Message("system", f"Context:\n{_encoder.encode(context).decode()}"))
        self._add(Message("user", intent))

    def request(self) -> None:
        """The crystal is about to be asked. Roles must alternate: after its own words it is nudged."""
        if self._messages and self._messages[-1].role == "assistant":
            self._add(Message("user", NUDGE))

    def utter(self, content: str | None, tool_calls: tuple[ToolCall, ...]) -> None:
        """The crystal has answered."""
        self._add(Message("assistant", content, tool_calls))
        self._unanswered = list(tool_calls)

    def observe(self, observation: Observation) -> None:
        """The next of the utterance's calls has been answered."""
        call = self._unanswered.pop(0)
        hidden = observation.gate in self._ephemeral and not observation.is_error
        text = f"[ephemeral:{observation.gate}]" if hidden else observation.text
        self._add(Message("tool", text, tool_call_id=call.id, is_error=observation.is_error))

    def close(self) -> None:
        """The episode is over: calls that were never made are answered so, since a provider wants each one answered."""
        while self._unanswered:
            self.observe(GateCall(self._unanswered[0], {}).refused(_NOT_RUN))

    def _recast(self, cast: EntityCast) -> None:
        """Another call: its system prompt comes first. Earlier snapshots keep what they show."""
        said = [message for message in self._messages if message.role != "system"]
        self._cast, self._messages, self.characters = cast, [], 0
        self._ephemeral = frozenset(gate.name for gate in cast.gates if gate.ephemeral)
        self._hash = hashlib.blake2b(_encoder.encode(cast), digest_size=16).digest()
        if cast.system_prompt:
            self._add(Message("system", cast.system_prompt))
        for message in said:
            self._add(message)

    def _add(self, message: Message) -> None:
        self._messages.append(message)
        self.characters += size(message)
        self._hash = hashlib.blake2b(self._hash + _encoder.encode(message), digest_size=16).digest()


class PastEpisode:
    """A finished episode, as its records tell it: what the crystal said, and what came of it."""

    def __init__(self, run: str, records: Iterable[Record[Entry]]) -> None:
        """`records` may hold those of others; only this run's count."""
        self._run = run
        self.utterances: list[tuple[AgentUtterance, float]] = []
        self.outcomes: dict[str, Outcome] = {}
        self.codes: dict[str, tuple[CodeReturned, float]] = {}
        self.kept: dict[str, bytes] = {}
        for record in records:
            self._take(record, record.entry, round(record.time, 6))

    def _take(self, record: Record[Entry], entry: Entry, time: float) -> None:
        call = record.correlation_id or ""
        said = utterance_in(record)
        if said is not None and said.run == self._run:
            self.utterances.append((said, time))
        match entry:
            case AgentToolResult() | AgentToolFault():
                self.outcomes.setdefault(entry.correlation_id, Outcome((gate_outcome(entry),), time))
            case GateReturned() | EntityReturned():
                self.outcomes.setdefault(call, Outcome((gate_outcome(entry),), time))
            case CodeReturned():
                self.codes[call] = entry, time
            case SandboxKept() if entry.run == self._run:
                self.kept[entry.after] = entry.variables
            case _:
                pass


def fold_episode(
    context: EntityContext,
    cast: EntityCast,
    run: str,
    intent: str,
    records: Iterable[Record[Entry]],
    workspace: Workspace | None = None,
) -> PastEpisode:
    """Add a finished episode to the context, and the code that it ran to the workspace."""
    past = PastEpisode(run, records)
    circle = Circle(cast.gates, cast.wards, cast.medium)
    context.begin(cast, intent)
    for utterance, now in past.utterances:
        context.request()
        context.utter(utterance.content, utterance.tool_calls)
        for index, call in enumerate(utterance.tool_calls):
            id = gate_call_id(run, utterance.turn, index)
            seen = _observed(circle.read(call), past, id)
            if seen is None:
                break
            observation, ended = seen
            context.observe(observation)
            if workspace is not None and id in past.codes:
                code, ended_at = past.codes[id]
                workspace.remember(PastCode(id, observation.args["code"], now, code.restored))
                now = max(now, ended_at)
                if id in past.kept:
                    workspace.restore(id, past.kept[id])
            if ended:
                break
    context.close()
    return past


def _observed(
    intended: GateCall | CodeCall | Done | Observation, past: PastEpisode, id: str
) -> tuple[Observation, bool] | None:
    """What the entity saw of a call, and whether the episode ended there; None if the call has no outcome."""
    if isinstance(intended, Done):
        return intended.observation, True
    if isinstance(intended, Observation):
        return intended, False
    if isinstance(intended, CodeCall):
        if id not in past.codes:
            return None
        run = code_run_of(past.codes[id][0])
        return intended.observation(run.text, is_error=run.error is not None), run.finished
    outcome = past.outcomes.get(id)
    return None if outcome is None else (intended.observation(outcome.steps[0]), False)
