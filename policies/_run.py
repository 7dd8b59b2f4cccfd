"""A run: one root policy, performed or gone on with, exactly where its journal says that it stopped."""

from __future__ import annotations

import asyncio

from policies._clock import Clock, SystemClock
from policies._codec import Call, Outcome
from policies._context import EffectContext, ScopeContext
from policies._errors import KeyReused, NonDeterminismError
from policies._recorder import Recorder, Slot
from policies._registry import PolicyInfo, PolicyKind, PolicyRegistry
from policies._step import error_result

_IDLE_PASSES = 100


class Run:
    """Performs a root call, whose id is the run's id.

    Its outcome is written like any other. Cancelling a run leaves its journal as it is; another one goes on from there.
    """

    def __init__(self, root: Call, registry: PolicyRegistry, recorder: Recorder, clock: Clock | None = None) -> None:
        self._root, self._registry, self._recorder = root, registry, recorder
        self._clock: Clock = SystemClock() if clock is None else clock

    def __repr__(self) -> str:
        return f"<Run {self._root.id} of {self._root.action.policy} {self._recorder!r}>"

    async def execute(self) -> Outcome:
        """Run the root policy to its end and record its outcome; a finished run gives what is recorded.

        Raises `NonDeterminismError` when it does not do what is recorded, `ClaimLost` when somebody else has taken it
        over, and whatever a policy raises; the journal is safe in each case.
        """
        root = self._recorder.root
        return root.outcome or await self._orchestrate(self._root, self._registry[self._root.action.policy], root)

    async def perform(self, call: Call) -> Outcome:
        """The outcome of a call: the recorded one, or else that of doing it now."""
        policy = self._registry[call.action.policy]
        slot = self._recorder.take(call)
        if slot is not None:
            self._compare(slot, call)
            return slot.outcome or await self._resume(call, policy, slot)
        if self._recorder.is_taken(call):
            raise KeyReused(call.key)
        slot = self._recorder.open(call)
        if self._recorder.unclaimed(call.scope):
            await self._catch_up(call)
        await self._recorder.write_call(call, 1)
        if policy.function is None:
            return await self._await_answer(call, policy, slot)
        return await self._do(call, policy, slot)

    async def _resume(self, call: Call, policy: PolicyInfo, slot: Slot) -> Outcome:
        """Go on with a call that was recorded and then cut off."""
        if policy.function is None:
            return await self._await_answer(call, policy, slot)
        if policy.repeatable:
            await self._recorder.write_call(call, slot.attempts + 1)
        elif policy.kind is PolicyKind.EFFECT and not policy.idempotent:
            message = f"{policy.name} was cut off: it may have happened, in part or in whole, and was not run again"
            return await self._recorder.write_outcome(call, [error_result(policy.name, "in_doubt", message)])
        return await self._do(call, policy, slot)

    async def _do(self, call: Call, policy: PolicyInfo, slot: Slot) -> Outcome:
        if policy.kind is PolicyKind.ORCHESTRATOR:
            return await self._orchestrate(call, policy, slot)
        assert policy.function is not None
        context = EffectContext(call.id, slot.attempts, slot.time)
        return await self._recorder.write_outcome(call, await policy.function(call.action, context))

    async def _orchestrate(self, call: Call, policy: PolicyInfo, slot: Slot) -> Outcome:
        assert policy.function is not None
        steps = await policy.function(call.action, ScopeContext(self, call, slot.time))
        for left in self._recorder.unclaimed(call.id).values():
            raise NonDeterminismError(self._root.id, _name(left), f"ends {policy.name} without it")
        if slot.outcome is not None:
            return slot.outcome  # it was recorded together with that of its last call
        return await self._recorder.write_outcome(call, steps)

    async def _await_answer(self, call: Call, policy: PolicyInfo, slot: Slot) -> Outcome:
        """Wait for the answer from outside; after the deadline a fault is recorded, and the first of them counts."""
        if slot.outcome is None and policy.timeout_s is not None:
            alarm = self._clock.call_at(slot.time + policy.timeout_s, slot.wake)
            try:
                await slot.changed()
            finally:
                alarm.cancel()
            if slot.outcome is None:
                message = f"no answer within {policy.timeout_s:g} s; it may still happen"
                await self._recorder.write_missing(call, [error_result(policy.name, "timeout", message)])
        while slot.outcome is None:
            await slot.changed()
        return slot.outcome

    def _compare(self, slot: Slot, call: Call) -> None:
        recorded, now = slot.action, call.action
        if recorded is not None and (recorded.policy != now.policy or recorded.payload != now.payload):
            raise NonDeterminismError(self._root.id, _name(slot), f"calls {now.policy!r} with {_short(now.payload)}")

    async def _catch_up(self, call: Call) -> None:
        """Before a call that is not recorded is made, let those of its scope that are find their callers.

        A recorded call depends on recorded outcomes only, so nothing but the event loop's next passes stands between
        it and its caller, also where several branches run side by side.
        """
        left, idle = len(self._recorder.unclaimed(call.scope)), 0
        while left:
            if idle == _IDLE_PASSES:
                slot = next(iter(self._recorder.unclaimed(call.scope).values()))
                payload = _short(call.action.payload)
                raise NonDeterminismError(self._root.id, _name(slot), f"calls {call.action.policy!r} with {payload}")
            await asyncio.sleep(0)
            now = len(self._recorder.unclaimed(call.scope))
            idle = idle + 1 if now == left else 0
            left = now


def _name(slot: Slot) -> str:
    if slot.action is None:
        return "a call that its journal holds by reference"
    return f"a call of {slot.action.policy!r} with {_short(slot.action.payload)}"


def _short(payload: object) -> str:
    text = repr(payload)
    return text if len(text) <= 200 else f"{text[:200]}…"
