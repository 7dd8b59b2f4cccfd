"""The entities of one run: the one that was asked, the children that it summons, and theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Final

import msgspec

from branches.agents.budget import Budget
from branches.agents.cantrip import Cantrip, cast_entry
from branches.agents.chunks import Stream
from branches.agents.circle import GateCall
from branches.agents.code import CodeRun, Recorded
from branches.agents.context import EntityContext
from branches.agents.deadline import Deadline, within
from branches.agents.delegation import child_outcome, read_request, refused_child
from branches.agents.episode import Episode
from branches.agents.gate import Gate, GateFailed, GateUse, pass_gate, thaw
from branches.agents.gates import ASK_PERSON, CALL_AGENT, CALL_AGENT_BATCH
from branches.agents.gathering import gather
from branches.agents.internal import EntityCast
from branches.agents.medium import Medium
from branches.agents.naming import APPROVAL, CODE, CRYSTAL, DENIED, FOLD, LOOP, child_id
from branches.agents.standstill import began, due
from branches.agents.workspace import Workspace
from branches.attachment import Attachment
from branches.service import is_being_cancelled
from journals import derive_id
from policies import (
    Action,
    Clock,
    Context,
    Outcome,
    Policy,
    PolicyInfo,
    PolicyKind,
    PolicyRegistry,
    Recorder,
    Step,
    action_result,
    error_result,
)

CHILDREN_AT_ONCE: Final = 16
_LOOK_S: Final = 0.02
Keep = Callable[[str, CodeRun], Awaitable[None]]
"""Told of code that was run in the root's workspace, by its call, so that the variables can be kept."""


class Family:
    """The policies of one run, by name: the loop, the crystal, code, and each gate.

    `workspace` is the root's sandbox where its medium runs code; children get one of their own. `recorder` knows what
    is recorded of the run, and `past` the recorded outcome of a call of an earlier one. `kept` are the snapshots of the
    workspace that were taken in this run before a restart, by the code that they were taken after. `open_stream` makes
    the stream of one utterance's text by its id; `images` came with the intent.
    """

    def __init__(
        self,
        cantrip: Cantrip,
        cast: EntityCast,
        context: EntityContext,
        recorder: Recorder,
        *,
        clock: Clock,
        tool_timeout_s: float,
        past: Recorded,
        workspace: Workspace | None = None,
        medium: Medium | None = None,
        open_stream: Callable[[str, bool], Stream] | None = None,
        images: tuple[Attachment, ...] = (),
        keep: Keep | None = None,
        kept: Mapping[str, bytes] | None = None,
    ) -> None:
        self.kept: Mapping[str, bytes] = kept or {}
        self.clock, self.open_stream, self._recorder, self._past = clock, open_stream, recorder, past
        self.budget = Budget(cantrip.circle.wards.max_tokens)
        self._timeout, self._medium, self._keep = tool_timeout_s, medium, keep
        self.root = Episode(cantrip, cast, context, workspace, self, run=recorder.run, images=images)
        self._episodes: dict[str, Episode] = {recorder.run: self.root}
        self._parents: dict[str, Episode] = {}
        self.registry = PolicyRegistry()
        self._register(cantrip)

    def __repr__(self) -> str:
        children, asked = len(self._episodes) - 1, len(self._parents)
        return f"<Family of {self.root!r}, {children} children at work, {asked} calls that ask for some>"

    def action(self, intent: str) -> Action:
        """The root action of the run."""
        return Action(LOOP, {"intent": intent}, self._menu(self.root.cantrip))

    def recorded(self, call: str) -> Outcome | None:
        """See `Surroundings.recorded`."""
        return self._recorder.outcome(call) or self._past(call)

    def known(self, call: str) -> bool:
        """See `Surroundings.known`."""
        return self._recorder.is_recorded(call)

    def abandon(self, scope: str) -> None:
        """See `Surroundings.abandon`."""
        self._recorder.abandon(scope)

    def deadline(self, run: str, seconds: float) -> Deadline:
        """See `Surroundings.deadline`."""

        def due_at(now: float) -> float | None:
            if self._recorder.replaying:  # what is recorded is done again first, however long ago it was
                asyncio.get_running_loop().call_later(_LOOK_S, self.look)
                return None
            return due(self._recorder.times(), run, seconds, now)

        return Deadline(self.clock, began(self._recorder.times(), run, self.clock.now()) + seconds, due_at)

    def look(self) -> None:
        """See `Surroundings.look`."""
        for episode in self._episodes.values():
            episode.look()

    def action_of(self, episode: Episode, call: GateCall) -> Action:
        """See `Surroundings.action_of`."""
        if call.gate not in (CALL_AGENT.name, CALL_AGENT_BATCH.name, ASK_PERSON.name):
            return Action(call.gate, call.arguments)
        return Action(call.gate, call.arguments, self._menu(episode.cantrip))

    @contextmanager
    def calling(self, episode: Episode, id: str) -> Generator[None]:
        """See `Surroundings.calling`."""
        self._parents[id] = episode
        try:
            yield
        finally:
            del self._parents[id]

    async def ran(self, episode: Episode, call: str, run: CodeRun) -> None:
        """See `Surroundings.ran`."""
        if self._keep is not None and episode is self.root:
            await self._keep(call, run)

    def _register(self, cantrip: Cantrip) -> None:
        """With what is known of them: to look at their signatures would cost an eighth of a short episode."""
        add, decides = self.registry.add, PolicyKind.ORCHESTRATOR
        retry = cantrip.retry.policy()
        add(PolicyInfo(name=LOOP, kind=decides, function=self._live))
        add(PolicyInfo(name=CRYSTAL, kind=PolicyKind.EFFECT, function=self._ask, repeatable=True, retry=retry))
        add(PolicyInfo(name=FOLD, kind=PolicyKind.EFFECT, function=self._fold, repeatable=True))
        add(PolicyInfo(name=CODE, kind=decides, function=self._run_code))
        add(PolicyInfo(name=CALL_AGENT.name, kind=decides, function=self._summon))
        add(PolicyInfo(name=CALL_AGENT_BATCH.name, kind=decides, function=self._summon_all))
        add(PolicyInfo(name=ASK_PERSON.name, kind=decides, function=self._ask_person))
        add(PolicyInfo(name=APPROVAL, kind=PolicyKind.EFFECT, function=None))
        add(PolicyInfo(name=DENIED, kind=PolicyKind.EFFECT, function=_deny, idempotent=True))
        for gate in cantrip.circle.served.values():
            serving = self._serving(gate)
            add(PolicyInfo(name=gate.name, kind=PolicyKind.EFFECT, function=serving, idempotent=gate.idempotent))
        for gate in cantrip.circle.outward:
            add(PolicyInfo(name=gate.name, kind=PolicyKind.EFFECT, function=None, timeout_s=self._timeout))

    async def _live(self, action: Action, ctx: Context) -> list[Step]:
        return [await self.root.live(ctx, action.payload["intent"])]

    async def _ask(self, action: Action, ctx: Context) -> list[Step]:
        return [await self._episodes[action.payload["run"]].asking.ask(ctx)]

    async def _fold(self, action: Action, ctx: Context) -> list[Step]:
        return [await self._episodes[action.payload["run"]].folds.make(action.payload)]

    async def _run_code(self, action: Action, ctx: Context) -> list[Step]:
        payload = action.payload
        return [await self._episodes[payload["run"]].run_code(payload["code"], payload["now"], ctx)]

    async def _ask_person(self, action: Action, ctx: Context) -> list[Step]:
        return [await self._parents[ctx.id].ask_person(action.policy, action.payload, ctx)]

    async def _summon(self, action: Action, ctx: Context) -> list[Step]:
        """One child, in a context of its own (COMP-4). It has a place among those at work only while it works."""
        parent, request = self._parents[ctx.id], read_request(action.payload)
        cantrip = parent.cantrip.child(request)
        if cantrip is None:
            return [error_result(CALL_AGENT.name, "unknown_crystal", f"there is no crystal {request.crystal!r} here")]
        workspace = None if self._medium is None else Workspace(self._medium, cantrip.circle, thaw(request.context))
        cast = cast_entry(cantrip, child_id(ctx.id))
        child = Episode(cantrip, cast, EntityContext(), workspace, self, run=ctx.id)
        self._episodes[ctx.id] = child
        self.look()
        try:
            return [await child.live(ctx, request.intent, thaw(request.context))]
        finally:
            del self._episodes[ctx.id]
            if workspace is not None:
                await workspace.close()

    async def _summon_all(self, action: Action, ctx: Context) -> list[Step]:
        """Several children at the same time, so many at once; what they give comes in the order asked (COMP-3)."""
        parent = self._parents[ctx.id]
        actions = action.actions
        available = [gate.name for gate in parent.cantrip.circle.available]
        places = asyncio.Semaphore(CHILDREN_AT_ONCE)

        async def one(index: int, request: object) -> object:
            refused = refused_child(request, available)
            if refused is not None:
                return {"error": refused}
            key = str(index)
            async with places:
                payload = msgspec.structs.asdict(read_request(request))
                with self.calling(parent, derive_id(ctx.id, key)):
                    (step,) = await ctx.call(Action(CALL_AGENT.name, payload, actions), key=key)
            outcome = child_outcome(step)
            return {"error": outcome.payload["message"]} if outcome.is_error else outcome.payload["result"]

        results = await gather(one(*asked) for asked in enumerate(action.payload["requests"]))
        return [action_result(CALL_AGENT_BATCH.name, {"result": results})]

    def _serving(self, gate: Gate) -> Policy:
        """The effect behind a gate of this process; it is given so much time and no more."""

        async def serve(action: Action, ctx: Context) -> list[Step]:
            use = GateUse(id=ctx.id, session=self._recorder.cause.session, attempt=ctx.attempt)
            try:
                result = await within(self.clock, self._timeout, pass_gate(gate, action.payload, use))
            except GateFailed as failed:
                return [error_result(gate.name, failed.code, str(failed))]
            except asyncio.CancelledError:
                if is_being_cancelled():
                    raise
                return [error_result(gate.name, "failed", "it was cancelled, by itself or by what it waited for")]
            except TimeoutError:
                message = f"no answer within {self._timeout:g} s; it may still happen"
                return [error_result(gate.name, "timeout", message)]
            return [action_result(gate.name, {"result": result})]

        return serve

    @staticmethod
    def _menu(cantrip: Cantrip) -> frozenset[str]:
        return cantrip.circle.causes | {CRYSTAL, CODE, FOLD, APPROVAL, DENIED}


async def _deny(action: Action, ctx: Context) -> list[Step]:
    return [error_result(action.payload["gate"], "denied", action.payload["reason"])]
