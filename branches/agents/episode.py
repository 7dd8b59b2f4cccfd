"""An episode: the loop of one entity on one intent (LOOP-1 to LOOP-6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from branches.agents.approval import Answer, ask_approval, ask_person
from branches.agents.asking import Asking
from branches.agents.cantrip import Cantrip
from branches.agents.circle import CodeCall, Done, GateCall, Intended, Observation, as_text
from branches.agents.code import CodeHost, CodeRun, code_run
from branches.agents.context import EntityContext
from branches.agents.crystal import Usage
from branches.agents.deadline import Deadline
from branches.agents.folds import Folds
from branches.agents.gathering import gather
from branches.agents.internal import EntityCast
from branches.agents.naming import APPROVAL, CODE, CRYSTAL, DENIED, gate_key, turn_id, turn_key
from branches.agents.steps import Said, code_step, ending, last_words
from branches.agents.surroundings import Surroundings
from branches.agents.workspace import PastCode, Workspace
from branches.attachment import Attachment
from journals import derive_id
from policies import Action, Context, Step, action_result, error_result


class Episode:
    """One entity at work on one intent.

    Every request to the crystal, every gate call and every piece of code goes through the run's context, so whatever
    was recorded is not done again; all else here is computed from what they gave.
    """

    def __init__(
        self,
        cantrip: Cantrip,
        cast: EntityCast,
        context: EntityContext,
        workspace: Workspace | None,
        surroundings: Surroundings,
        *,
        run: str,
        images: tuple[Attachment, ...] = (),
    ) -> None:
        self.cantrip, self.cast, self.run, self.workspace = cantrip, cast, run, workspace
        self._context, self._surroundings, self._images = context, surroundings, images
        self._called: Counter[str] = Counter()
        self._errors = 0
        self._ran = ""
        self.folds = Folds(cantrip, context, surroundings, run)
        self.asking = Asking(cantrip, context, None if workspace is None else workspace.tool, surroundings)
        self._deadline: Deadline | None = None
        self._last_error: str | None = None
        self.is_whole = False
        """Whether it ended behind a turn and not within one, so that its journal tells all that its context holds."""

    def __repr__(self) -> str:
        return f"<Episode {self.run} {self._context!r} calls={self._called.total()} errors={self._errors}>"

    async def live(self, ctx: Context, intent: str, context: object = None) -> Step:
        """Turn after turn, until the entity is done, or a ward or a failure ends it; gives its ending."""
        self._context.begin(self.cast, intent, context if self.workspace is None else None, self._images)
        wards = self.cantrip.circle.wards
        if wards.max_seconds is not None:
            self._deadline = self._surroundings.deadline(self.run, wards.max_seconds)
        turn = 0
        while wards.max_turns is None or turn < wards.max_turns:
            turn += 1
            if self._deadline is not None and self._deadline.is_past(ctx.now()):
                return self._truncated("max_seconds", turn - 1)
            try:
                work = self._turn(turn, ctx)
                ended = await (work if self._deadline is None else self._deadline.bound(work))
            except TimeoutError:
                if self._deadline is None or not self._deadline.has_passed:
                    raise
                self._surroundings.abandon(self.run)
                return self._truncated("max_seconds", turn)
            if ended is not None:
                self.is_whole = ended.payload["ending"] == "terminated"
                return ended
        self.is_whole = True
        return self._truncated("max_turns", turn)

    def look(self) -> None:
        """Its time may go on that has stood still."""
        if self._deadline is not None:
            self._deadline.look()

    async def run_code(self, code: str, now: float, ctx: Context) -> Step:
        """Run code in the entity's sandbox; its gate calls are calls of this scope."""
        assert self.workspace is not None
        self._ran = ctx.id
        host = CodeHost(self.cantrip.circle, ctx, now, self._pass)
        outcome = await self.workspace.run(code, host, now, ctx.id, self._surroundings.recorded)
        return code_step(code_run(outcome, host))

    async def _turn(self, turn: int, ctx: Context) -> Step | None:
        """One turn; gives how the episode ends, if it does here.

        Calls are made one after the other, each with its observation, and none behind `done` (CIRCLE-3, CIRCLE-7,
        D-003). Text alone ends the episode unless `done` is required (D-004).
        """
        context, cantrip = self._context, self.cantrip
        context.request()
        await self.folds.before(turn, ctx)
        id = turn_id(self.run, turn)
        reserved = self._surroundings.budget.reserve(id, self.asking.estimate())
        if reserved is None:
            self._surroundings.abandon(self.run)  # a request that was cut off, and that cannot be paid for again
            return self._truncated("max_tokens", turn - 1)
        payload = {
            "run": self.run,
            "turn": turn,
            "context": context.digest,
            "messages": len(context.messages),
            "reserved": reserved,
            "text_ends": not cantrip.requires_done,
        }
        (step,) = await ctx.call(Action(CRYSTAL, payload), key=turn_key(turn))
        if step.is_error:
            wasted = msgspec.convert(step.payload.get("usage", {}), Usage)
            if wasted != Usage():  # else nobody knows, and what was reserved stays so
                self._surroundings.budget.settle(id, wasted)
            return ending(f"I could not go on: {step.payload['message']}", "failed")
        said = msgspec.convert(step.payload, Said)
        self._surroundings.budget.settle(id, said.usage)
        context.utter(said.content, said.tool_calls, said.usage, said.model, said.opaque)
        calls = tuple(cantrip.circle.read_all(said.tool_calls, said.finish))
        outcomes = await self._together(turn, calls, ctx) if cantrip.circle.independent else {}
        for index, intended in enumerate(calls):
            if isinstance(intended, Done):
                context.observe(intended.observation)
                return _terminated(intended.answer)
            key = gate_key(turn, index)
            if isinstance(intended, CodeCall):
                run = await self._code(intended, key, ctx)
                observation = intended.observation(run.text, is_error=run.error is not None)
                if run.finished:
                    context.observe(observation)
                    return _terminated(run.value)
            elif isinstance(intended, GateCall):
                outcome = outcomes[index] if index in outcomes else await self._pass(intended, key, ctx)
                observation = intended.observation(outcome)
            else:
                observation = intended
            self._see(observation)
        if not said.tool_calls and not cantrip.requires_done:
            return ending(how="terminated", **last_words(said))
        return None

    async def _pass(self, call: GateCall, key: str, ctx: Context) -> Step:
        """What comes of a call that may pass its gate, in this scope: a person is asked first where one is to be."""
        circle, id = self.cantrip.circle, derive_id(ctx.id, key)
        self._called[call.gate] += 1
        action = self._surroundings.action_of(self, call)
        if circle.is_guarded(call.gate):
            asked = ask_approval(ctx, key, id, call.gate, call.arguments, circle.approvers)
            answer = await self._standing_still(asked)
            if not answer.approves:
                reason = f"{answer.by} did not approve this call, and answered: {answer.answer}"
                if not answer.by:
                    reason = f"nobody approved this call: {answer.answer or 'what came was no answer'}"
                action = Action(DENIED, {"gate": call.gate, "arguments": call.arguments, "reason": reason})
        with self._surroundings.calling(self, id):
            (outcome,) = await ctx.call(action, key=key)
        return outcome

    async def ask_person(self, gate: str, arguments: Mapping[str, Any], ctx: Context) -> Step:
        """The entity asks a person something: the answer is the gate's result."""
        asked = ask_person(ctx, "question", gate, arguments, self.cantrip.circle.approvers)
        answer = await self._standing_still(asked)
        if not answer.by:
            message = answer.answer or "what came was no answer"
            return error_result(gate, "unasked", message)
        return action_result(gate, {"result": answer.answer})

    async def _standing_still(self, asked: Awaitable[Answer]) -> Answer:
        """Wait for a person; behind that the time goes on of all who stood still."""
        try:
            return await asked
        finally:
            self._surroundings.look()

    async def _together(self, turn: int, calls: Sequence[Intended], ctx: Context) -> dict[int, Step]:
        """The outcomes of gate calls that do not wait for each other, by their place in the utterance (CIRCLE-7)."""
        passing: dict[int, GateCall] = {}
        for index, intended in enumerate(calls):
            if isinstance(intended, Done):
                break
            if isinstance(intended, GateCall):
                passing[index] = intended
        works = [self._pass(call, gate_key(turn, index), ctx) for index, call in passing.items()]
        return dict(zip(passing, await gather(works), strict=True))

    async def _code(self, call: CodeCall, key: str, ctx: Context) -> CodeRun:
        """What code came to: it is run, unless that is recorded; then it waits until code is run that is not."""
        assert self.workspace is not None
        now = ctx.now()
        payload = {"run": self.run, "code": call.code, "now": now}
        gates = self.cantrip.circle.causes | {APPROVAL, DENIED}
        (step,) = await ctx.call(Action(CODE, payload, gates), key=key)
        run = msgspec.convert(step.payload, CodeRun)
        id = derive_id(self.run, key)
        if self._ran == id:
            await self._surroundings.ran(self, id, run)
        else:
            variables = self._surroundings.kept.get(id)
            self.workspace.remember(PastCode(id, call.code, now, run.restored, self.cantrip.circle, variables))
        return run

    def _see(self, observation: Observation) -> None:
        if observation.is_error:
            self._errors += 1
            self._last_error = as_text(observation.result)
        self._context.observe(observation)

    def _truncated(self, ward: str, turns: int) -> Step:
        """How a ward ends it: with what was accomplished before (LOOP-4), and what went wrong last."""
        calls = ", ".join(f"{gate} ({times})" for gate, times in self._called.items()) or "none"
        errors = f" {self._errors} of them failed, the last one so: {self._last_error}" if self._errors else ""
        limits = {"max_turns": f"after {turns} turns", "max_seconds": "when its time was up"}
        how = limits.get(ward, "before its tokens were spent")
        text = f"I was stopped {how}, the limit here. Gates called until then: {calls}.{errors}"
        return ending(text, "truncated", ward)


def _terminated(answer: object) -> Step:
    text = as_text(answer)
    return ending(text, "terminated", None, UNSET if isinstance(answer, str) else answer)
