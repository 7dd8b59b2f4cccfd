"""The fold of records into turns: fed one by one, as they are read or as they come."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from operator import itemgetter
from typing import Any

import msgspec
from msgspec.structs import replace

from branches.agents.crystal import Usage
from branches.agents.entries import AgentPrompt, AgentResponse, AgentToolCall, AgentToolFault, AgentToolResult
from branches.agents.files import images_of
from branches.agents.gates import CALL_AGENT, CALL_AGENT_BATCH
from branches.agents.internal import (
    AgentUtterance,
    CodeReturned,
    ContextFolded,
    CrystalCalled,
    CrystalFailed,
    EntityCast,
    EntityForked,
    EntityReturned,
    EntitySummoned,
    GateCalled,
    GateReturned,
    TurnRewarded,
)
from branches.agents.loom._draft import Draft, Ending, Made, Said
from branches.agents.loom._loom import Loom
from branches.agents.loom._run import Entity, Run
from branches.agents.loom._turn import Shown
from branches.agents.naming import run_id, turn_id
from branches.agents.root_call import NO_CALL, RootCall, child_call, request_of, root_call
from branches.agents.steps import GateOutcome, answer_of, gate_outcome
from branches.agents.utterances import utterance_in
from journals import Entry, Record, Unreadable

KINDS = tuple(
    entry.kind()
    for entry in (
        *(AgentPrompt, AgentToolCall, AgentToolResult, AgentToolFault, AgentResponse),
        *(EntityCast, EntityForked, EntitySummoned, EntityReturned, CrystalCalled, AgentUtterance, CrystalFailed),
        *(GateCalled, GateReturned, CodeReturned, ContextFolded, TurnRewarded),
    )
)
"""The kinds that say something about turns."""


class _Call(msgspec.Struct):
    """A gate call on its way: whose it is, and which part of that turn its children have closed, if it has any."""

    draft: Draft
    made: Made
    closed: int | None = None


class _Session:
    """What a session's next episode begins with."""

    def __init__(self) -> None:
        self.call = NO_CALL
        self.entity: Entity | None = None
        self.forked_from: str | None = None


class Weaver:
    """Weaves the records of one session or of many. Those of one session come in their order.

    A session that was forked comes after the one that it was forked from. It takes constant time a record; records
    that say nothing about turns, that are unfinished, or that cannot be read, do no harm.
    """

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}
        self._intents: dict[str, tuple[str, tuple[Shown, ...]]] = {}
        self._runs: dict[str, Run] = {}
        self._summoned_by: dict[str, _Call] = {}
        self._drafts: dict[str, Draft] = {}
        self._newest: dict[str, Draft] = {}
        self._code: dict[str, Draft] = {}
        self._calls: dict[str, _Call] = {}
        self._order: list[tuple[int, Draft, int]] = []
        self._roots: dict[str, RootCall] = {}
        self._rewards: dict[str, float] = {}
        self._folds: dict[str, Usage] = {}
        self._unreadable: list[int] = []

    def __repr__(self) -> str:
        return f"<Weaver of {len(self._order)} turns in {len(self._sessions)} sessions>"

    def feed(self, record: Record[Entry]) -> None:
        """Take in the next record."""
        said = utterance_in(record)
        if said is not None:
            self._say(record, said)
        match record.entry:
            case AgentPrompt() as prompt:
                self._intents[run_id(record.id)] = prompt.text, _shown(prompt, record.id)
            case EntityCast() as cast:
                self._cast(record.session, cast)
            case EntityForked() as forked:
                self._fork(record, forked)
            case CrystalCalled() as called:
                self._begin(self._run(called.run, record.session))
            case CrystalFailed() as failed:
                self._say(record, failed)
            case ContextFolded() as folded:
                self._folds[turn_id(folded.run, folded.turn)] = folded.usage
            case AgentToolCall() as called:
                scope = called.scope or run_id(record.causation_id or "")
                self._make(called.correlation_id, scope, called.tool_name, called.arguments)
            case GateCalled() as called:
                self._make(record.correlation_id or "", called.scope, called.gate, called.arguments)
            case EntitySummoned() as summoned:
                self._summon(record, summoned)
            case AgentToolResult() | AgentToolFault() | GateReturned() as outcome:
                self._settle(record, outcome)
            case CodeReturned() as code:
                self._return_code(record, code)
            case EntityReturned() as returned:
                run = self._runs.get(record.correlation_id or "")
                if run is not None and run.begun:
                    self._end(record, run, returned)
                self._settle(record, returned)
            case AgentResponse() as response if record.causation_id is not None:
                self._end(record, self._run(run_id(record.causation_id), record.session), response)
            case TurnRewarded() as rewarded:
                self._rewards[rewarded.turn] = rewarded.reward
            case Unreadable():
                self._unreadable.append(record.position)
            case _:
                pass

    def loom(self) -> Loom:
        """The loom as it stands now. It takes time with its length; turns that did not change are not made again."""
        turns = (draft.turns()[part] for _, draft, part in sorted(self._order, key=itemgetter(0)))
        rewards = self._rewards
        return Loom(
            (replace(turn, reward=rewards[turn.id]) if turn.id in rewards else turn for turn in turns),
            self._roots.values(),
            self._unreadable,
        )

    # Who acts

    def _session(self, name: str) -> _Session:
        return self._sessions.setdefault(name, _Session())

    def _cast(self, name: str, entry: EntityCast) -> None:
        session = self._session(name)
        session.call = self._root(root_call(entry))
        if session.entity is None or session.entity.id != entry.entity:
            session.entity = Entity(entry.entity, session.entity.last if session.entity else session.forked_from)

    def _root(self, call: RootCall) -> RootCall:
        return self._roots.setdefault(call.cantrip_id, call)

    def _fork(self, record: Record[Entry], entry: EntityForked) -> None:
        """The session's first turn hangs below this one; an imported journal counts its positions anew."""
        parent, session = turn_id(entry.run, entry.turn), self._session(record.session)
        draft = self._drafts.get(parent)
        if draft is not None:
            parent = draft.newest_id if record.imported else draft.part_id(draft.part_at(entry.position))
            session.call = draft.run.call
        session.forked_from = parent

    def _run(self, id: str, session: str) -> Run:
        """The run of this id; one that nobody summoned is an episode of the session's own entity."""
        run = self._runs.get(id)
        if run is None:
            root = self._session(session)
            if root.entity is None:
                root.entity = Entity(session, root.forked_from)
            run = self._runs[id] = Run(id, session, root.entity, root.call, *self._intents.pop(id, (None, ())))
        return run

    def _summon(self, record: Record[Entry], entry: EntitySummoned) -> None:
        id = record.correlation_id or ""
        if id in self._runs:
            return
        made_by = self._calls.get(entry.scope)
        if made_by is None or made_by.made.gate != CALL_AGENT_BATCH.name:  # a child's run has the id of its call too
            asked = msgspec.structs.asdict(request_of(entry))
            arguments = {name: value for name, value in asked.items() if value is not None}
            made_by = self._make(id, entry.scope, CALL_AGENT.name, arguments)
        if made_by is None:
            return
        parent = made_by.draft.run
        child = Entity(entry.entity, None)
        self._runs[id] = Run(id, record.session, child, child_call(parent.call, entry), entry.intent)
        parent.children.append(self._runs[id])
        self._summoned_by[id] = made_by

    def _begin(self, run: Run) -> None:
        """The run shows its first sign of life. Only now a child exists, and has closed the turn of its parent."""
        if run.begun:
            return
        run.begun = True
        made_by = self._summoned_by.get(run.id)
        if made_by is not None:
            if made_by.closed is None:
                made_by.closed = made_by.draft.newest
            run.entity.last = made_by.draft.part_id(made_by.closed)
            self._root(run.call)

    # What it says

    def _say(self, record: Record[Entry], said: Said) -> None:
        id = turn_id(said.run, said.turn)
        if id in self._drafts:
            return
        run = self._run(said.run, record.session)
        self._begin(run)
        folded = self._folds.pop(id, Usage())
        draft = self._add(Draft(run, said, record.position, record.time, folded), record.position)
        if run.call.medium != "tools":
            self._code |= {draft.call_id(index): draft for index in range(len(draft.tool_calls))}

    def _add(self, draft: Draft, position: int) -> Draft:
        self._drafts[draft.id] = self._newest[draft.run.id] = draft
        self._order.append((position, draft, draft.newest))
        return draft

    # What its gates give

    def _make(self, id: str, scope: str, gate: str, arguments: Mapping[str, Any]) -> _Call | None:
        """A gate call made in this scope; None if it is known already, or if nobody knows who made it."""
        code = self._code.get(scope)
        draft = code or self._newest.get(scope)
        if draft is None or id in self._calls:
            return None
        call = self._calls[id] = _Call(draft, Made(gate, arguments))
        draft.make(id, call.made, scope if code else None)
        return call

    def _settle(self, record: Record[Entry], entry: GateOutcome) -> None:
        """The outcome of a call; of several the first one counts. After a delegation it opens the next turn."""
        call = self._calls.get(record.correlation_id or "")
        if call is None or call.made.outcome is not None:
            return
        if call.closed == call.draft.newest:  # of children that worked at the same time the first to return goes on
            call.draft.go_on(record.position, record.time)
            self._order.append((record.position, call.draft, call.draft.newest))
        call.draft.settle(call.made, gate_outcome(entry), record.time)

    def _return_code(self, record: Record[Entry], entry: CodeReturned) -> None:
        id = record.correlation_id or ""
        if id in self._code:
            self._code[id].returned(id, entry, record.time)

    # How it ends

    def _end(self, record: Record[Entry], run: Run, entry: AgentResponse | EntityReturned) -> None:
        if run.ended:
            return
        self._close(record, run, Ending(entry.ending, _reason(entry), answer_of(entry)))

    def _close(self, record: Record[Entry], run: Run, ending: Ending) -> None:
        """The run is over, and with it the children that are still at work."""
        run.ended = True
        draft = self._newest.get(run.id)
        if draft is None:  # it ended before its crystal said anything
            draft = self._add(Draft(run, None, record.position, record.time), record.position)
        draft.end(ending, record.time)
        for child in run.children:
            if child.begun and not child.ended:
                self._close(record, child, Ending(ending.how, ending.reason, None))


def _shown(prompt: AgentPrompt, id: str) -> tuple[Shown, ...]:
    """The images of a prompt, without their bytes."""
    return tuple(
        Shown(
            name=image.name,
            media_type=image.media_type,
            size=len(image.body),
            sha256=hashlib.sha256(image.body).hexdigest(),
            prompt=id,
        )
        for image in images_of(prompt)
    )


def _reason(entry: AgentResponse | EntityReturned) -> str | None:
    """Why an episode did not terminate: the ward, the error, or that it was cancelled."""
    return {"terminated": None, "truncated": entry.ward, "failed": entry.text}.get(entry.ending, entry.ending)
