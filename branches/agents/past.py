"""Finished episodes, folded into a context again when a session is taken over."""

from __future__ import annotations

from collections.abc import Iterable

from branches.agents.circle import Circle, CodeCall, Done, Intended, Observation
from branches.agents.context import EntityContext
from branches.agents.entries import AgentToolFault, AgentToolResult
from branches.agents.folding import Folding
from branches.agents.internal import (
    AgentUtterance,
    CodeReturned,
    ContextFolded,
    EntityCast,
    EntityReturned,
    GateReturned,
    SandboxKept,
)
from branches.agents.naming import gate_call_id
from branches.agents.steps import code_run_of, gate_outcome
from branches.agents.utterances import utterance_in
from branches.agents.workspace import PastCode, Workspace
from branches.attachment import Attachment
from journals import Entry, Record
from policies import Outcome


class PastEpisode:
    """A finished episode, as its records tell it: what the crystal said, and what came of it."""

    def __init__(self, run: str, records: Iterable[Record[Entry]]) -> None:
        """`records` may hold those of others; only this run's count."""
        self._run = run
        self.utterances: list[tuple[AgentUtterance, float]] = []
        self.outcomes: dict[str, Outcome] = {}
        self.codes: dict[str, tuple[CodeReturned, float]] = {}
        self.kept: dict[str, bytes] = {}
        self.folds: dict[int, ContextFolded] = {}
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
            case ContextFolded() if entry.run == self._run:
                self.folds[entry.turn] = entry
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
    through: int | None = None,
    images: tuple[Attachment, ...] = (),
) -> PastEpisode:
    """Add a finished episode to the context, or its turns up to `through`, and the code it ran to the workspace."""
    past = PastEpisode(run, records)
    circle = Circle(cast.gates, cast.wards, cast.medium)
    context.begin(cast, intent, images=images)
    for utterance, now in past.utterances:
        if through is not None and utterance.turn > through:
            break
        context.request()
        if utterance.turn in past.folds:
            folded = past.folds[utterance.turn]
            context.fold(folded.kept, folded.summary, cast.folding or Folding(), folded.context_limit)
        context.utter(utterance.content, utterance.tool_calls, utterance.usage, utterance.model, utterance.opaque)
        for index, intended in enumerate(circle.read_all(utterance.tool_calls, utterance.finish)):
            id = gate_call_id(run, utterance.turn, index)
            seen = _observed(intended, past, id)
            if seen is None:
                break
            observation, ended = seen
            context.observe(observation)
            if workspace is not None and id in past.codes:
                code, ended_at = past.codes[id]
                past_code = observation.args["code"]
                workspace.remember(PastCode(id, past_code, now, code.restored, circle, past.kept.get(id)))
                now = max(now, ended_at)
            if ended:
                break
    context.close()
    return past


def _observed(intended: Intended, past: PastEpisode, id: str) -> tuple[Observation, bool] | None:
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
