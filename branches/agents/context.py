"""An entity's context: the messages that the crystal is shown, a fold of the session's records.

The running loop and the fold of finished episodes make it by the same few steps, so that after a restart the crystal
is shown exactly what it would have been shown without.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from branches.agents.circle import Circle, Done, GateCall, Observation
from branches.agents.codec import gate_outcome, utterance_in
from branches.agents.crystal import Message, ToolCall
from branches.agents.entries import AgentToolFault, AgentToolResult
from branches.agents.internal import AgentUtterance, EntityCast
from branches.agents.naming import gate_call_id
from journals import Entry, Record
from policies import Snapshot

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

    def begin(self, cast: EntityCast, intent: str) -> None:
        """An episode begins: the intent comes as a user message, under this call."""
        self.close()
        if cast != self._cast:
            self._recast(cast)
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
        self._add(Message("tool", observation.text, tool_call_id=call.id, is_error=observation.is_error))

    def close(self) -> None:
        """The episode is over: calls that were never made are answered so, since a provider wants each one answered."""
        while self._unanswered:
            self.observe(GateCall(self._unanswered[0], {}).refused(_NOT_RUN))

    def _recast(self, cast: EntityCast) -> None:
        """Another call: its system prompt comes first. Earlier snapshots keep what they show."""
        said = [message for message in self._messages if message.role != "system"]
        self._cast, self._messages = cast, []
        self._hash = hashlib.blake2b(_encoder.encode(cast), digest_size=16).digest()
        if cast.system_prompt:
            self._add(Message("system", cast.system_prompt))
        for message in said:
            self._add(message)

    def _add(self, message: Message) -> None:
        self._messages.append(message)
        self._hash = hashlib.blake2b(self._hash + _encoder.encode(message), digest_size=16).digest()


def fold_episode(
    context: EntityContext, cast: EntityCast, run: str, intent: str, records: Iterable[Record[Entry]]
) -> None:
    """Add a finished episode to the context. `records` may hold those of others; only this run's count."""
    utterances: list[AgentUtterance] = []
    outcomes: dict[str, AgentToolResult | AgentToolFault] = {}
    for record in records:
        entry = record.entry
        said = utterance_in(record)
        if said is not None and said.run == run:
            utterances.append(said)
        elif isinstance(entry, AgentToolResult | AgentToolFault):
            outcomes.setdefault(entry.correlation_id, entry)
    circle = Circle(cast.gates, cast.wards)
    context.begin(cast, intent)
    for utterance in utterances:
        context.request()
        context.utter(utterance.content, utterance.tool_calls)
        for index, call in enumerate(utterance.tool_calls):
            intended = circle.read(call)
            if isinstance(intended, Done):
                context.observe(intended.observation)
                break
            if isinstance(intended, Observation):
                context.observe(intended)
                continue
            outcome = outcomes.get(gate_call_id(run, utterance.turn, index))
            if outcome is None:
                break
            context.observe(intended.observation(gate_outcome(outcome)))
    context.close()
