"""An entity's context: the messages that the crystal is shown, a fold of the session's records.

The running loop and the fold of finished episodes make it by the same few steps, so that after a restart the crystal
is shown exactly what it would have been shown without.
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from branches.agents.circle import GateCall, Observation
from branches.agents.crystal import Message, ToolCall, Usage
from branches.agents.fitting import View, fits, fitted
from branches.agents.folding import (
    CHARS_A_TOKEN,
    Fold,
    Folded,
    Folding,
    TurnMessages,
    estimate_tokens,
    fold,
    fold_to,
    shown,
)
from branches.agents.folding_text import shortened
from branches.agents.internal import EntityCast
from branches.attachment import Attachment
from policies import Snapshot

NUDGE = "Go on. When the task is complete, call the gate `done` with your answer."
SHOWN_CHARS: Final = 400_000
"""How many characters of one intent or observation the crystal is shown: some 100,000 tokens. The loom has it whole.

A context that is too long for its crystal would fail its episode and all that follow.
"""
_NOT_RUN = "not_run: the episode ended before this call"
_encoder = msgspec.json.Encoder()


class EntityContext:
    """The messages of one entity, growing by one at a time; `digest` is a running hash of all that a request shows.

    It grows monotonically (ENTITY-3); folding shortens what is shown of it. `tokens` is about what a request of it
    comes to.
    """

    def __init__(self) -> None:
        self._cast: EntityCast | None = None
        self._system: list[Message] = []
        self._folded: Folded | None = None
        self._turns: list[TurnMessages] = []
        self._intents: list[Message] = []
        self._current: list[Message] = []
        self._messages: list[Message] = []
        self._unanswered: list[ToolCall] = []
        self._ephemeral: frozenset[str] = frozenset()
        self._number = 0
        self._hash = b""
        self.tokens = 0

    def __repr__(self) -> str:
        return f"<EntityContext of {self._number} turns, {len(self._messages)} messages shown, {self.digest[:8]}>"

    @property
    def messages(self) -> Snapshot[Message]:
        """What was said so far, as it is shown now."""
        return Snapshot(self._messages)

    @property
    def digest(self) -> str:
        """The digest of call, gates and messages."""
        return self._hash.hex()

    def begin(self, cast: EntityCast, intent: str, context: object = None, images: tuple[Attachment, ...] = ()) -> None:
        """An episode begins: the intent comes as a user message, with its images, under this call (INTENT-2, CALL-2).

        `context` is data for a child that has no variables: a second system message, right after the call's.
        """
        self.close()
        self._seal()
        if cast != self._cast:
            self._recast(cast)
        if context is not None:
            self._system.append(self._add(Message("system", f"Context:\n{_encoder.encode(context).decode()}")))
        self._intents.append(self._add(Message("user", shortened(intent, SHOWN_CHARS), images=images)))

    def request(self) -> None:
        """The crystal is about to be asked. Roles must alternate: after its own words it is nudged."""
        if self._current and self._current[-1].role == "assistant":
            self._current.append(self._add(Message("user", NUDGE)))
        self._seal()

    def utter(
        self,
        content: str | None,
        tool_calls: tuple[ToolCall, ...],
        usage: Usage,
        model: str | None = None,
        opaque: str | None = None,
    ) -> None:
        """The crystal has answered; `usage` tells what its request came to."""
        if usage.prompt:
            self.tokens = usage.prompt
        self._number += 1
        self._current = [self._add(Message("assistant", content, tool_calls, model=opaque and model, opaque=opaque))]
        self._unanswered = list(tool_calls)

    def observe(self, observation: Observation) -> None:
        """The next of the utterance's calls has been answered.

        Of an ephemeral gate's result a placeholder is shown, and of one that no crystal could take both its ends.
        """
        call = self._unanswered.pop(0)
        hidden = observation.gate in self._ephemeral and not observation.is_error
        text = f"[ephemeral:{observation.gate}]" if hidden else shortened(observation.text, SHOWN_CHARS)
        self._current.append(self._add(Message("tool", text, tool_call_id=call.id, is_error=observation.is_error)))

    def close(self) -> None:
        """The episode is over: calls that were never made are answered so, since a provider wants each one answered."""
        while self._unanswered:
            self.observe(GateCall(self._unanswered[0], {}).refused(_NOT_RUN))

    def due(self, options: Folding, context_limit: int | None) -> Fold | None:
        """The fold that is due before the request that is about to be made, if one is (PROD-4)."""
        turns, earlier = self._turns, self._folded
        due = fold(turns, options, used_tokens=self.tokens, context_limit=context_limit, earlier=earlier)
        if due is not None or context_limit is None or fits(self.tokens, context_limit):
            return due
        view = self._view
        if fitted(view, context_limit, self._density) == view:
            return None
        return Fold(kept=len(turns), folded=earlier or Folded(through=0, summary=""))

    def fold(self, kept: int, summary: str, options: Folding, context_limit: int | None) -> None:
        """Show all but the newest turns folded, by this summary or by what follows from them (LOOM-5, CALL-5).

        What is still too long for the crystal then is shown by both its ends.
        """
        density = self._density
        if kept < len(self._turns):
            due = fold_to(kept, self._turns, options, context_limit=context_limit, earlier=self._folded)
            self._folded = due.summarised(summary) if summary else due.folded
            self._turns = self._turns[-kept:]
            self._note(self._folded.summary.encode())
        if context_limit is not None and (made := fitted(self._view, context_limit, density)) != self._view:
            self._folded, self._turns, self._intents = made.folded, list(made.turns), list(made.pending)
            self._note(_encoder.encode(made.messages))
        self._show()

    @property
    def _view(self) -> View:
        return View(tuple(self._system), self._folded, tuple(self._turns), tuple(self._intents))

    @property
    def _density(self) -> float:
        """How many tokens there are to an estimated one, as far as a crystal has told what its request came to.

        No text has more than a token for each character; whoever tells of more counts otherwise.
        """
        return min(CHARS_A_TOKEN, self.tokens / max(1, estimate_tokens(self._messages)))

    def _seal(self) -> None:
        """The turn is complete."""
        if self._current:
            turn = TurnMessages(number=self._number, messages=tuple(self._current), intents=tuple(self._intents))
            self._turns.append(turn)
            self._current, self._intents = [], []

    def _recast(self, cast: EntityCast) -> None:
        """Another call: its system prompt comes first. Earlier snapshots keep what they show."""
        self._cast = cast
        self._ephemeral = frozenset(gate.name for gate in cast.gates if gate.ephemeral)
        self._hash = hashlib.blake2b(_encoder.encode(cast) + self._hash, digest_size=16).digest()
        self._system = [Message("system", cast.system_prompt)] if cast.system_prompt else []
        self._show()

    def _show(self) -> None:
        self._messages = shown(self._system, self._folded, self._turns, self._intents)
        self.tokens = estimate_tokens(self._messages)

    def _add(self, message: Message) -> Message:
        self._messages.append(message)
        self.tokens += estimate_tokens((message,))
        self._note(_encoder.encode(message))
        return message

    def _note(self, change: bytes) -> None:
        self._hash = hashlib.blake2b(self._hash + change, digest_size=16).digest()
