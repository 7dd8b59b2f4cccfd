"""A run: one root policy, performed or gone on with, exactly where its journal says that it stopped."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence

from policies._action import Action
from policies._arguments import ArgumentsInvalid
from policies._clock import Clock, SystemClock, sleep_until
from policies._codec import Call, Outcome
from policies._context import EVENT, SLEEP, ScopeContext
from policies._decorators import Decorator, bare
from policies._doing import Doing, checked, readable, refuse_cancelled
from policies._errors import ActionNotAllowed, KeyReused, NonDeterminismError, ReplayEnded, UnsupportedVersion
from policies._ledger import Ledger
from policies._recorder import Recorder
from policies._registry import PolicyInfo, PolicyKind, PolicyRegistry
from policies._slot import Slot, short
from policies._step import Step, error_result
from policies._waiting import Waiting


class Run:
    """Performs a root call, whose id is the run's id.

    Its outcome is written like any other. Cancelling a run leaves its journal as it is; another one goes on from there.
    Nothing may be called that is not among `ceiling`, by default the actions of the root. `listen` is called before
    the run waits for something from outside, `catch_up` before it decides that nothing came.

    With `again` the orchestrators of a recorded run are run once more over what was recorded, and nothing else: no
    effect runs, and what would have to be written raises `ReplayEnded`.
    """

    def __init__(
        self,
        root: Call,
        registry: PolicyRegistry,
        recorder: Recorder,
        clock: Clock | None = None,
        *,
        seed: Ledger | None = None,
        ceiling: Collection[str] | None = None,
        listen: Callable[[], object] | None = None,
        catch_up: Callable[[], Awaitable[None]] | None = None,
        again: bool = False,
    ) -> None:
        self._root, self._registry, self._recorder = root, registry, recorder
        self.clock: Clock = SystemClock() if clock is None else clock
        self._seed = Ledger() if seed is None else seed
        self._ceiling = frozenset(root.action.actions if ceiling is None else ceiling) | {root.action.policy}
        self._doing, self._waiting = Doing(recorder, self.clock), Waiting(recorder, self.clock, listen, catch_up)
        self._again = again
        self._under_way: defaultdict[str, set[asyncio.Task[object]]] = defaultdict(set)
        self._tasks: dict[str, asyncio.Task[object] | None] = {}

    def __repr__(self) -> str:
        return f"<Run {self._root.id} of {self._root.action.policy} {self._recorder!r}>"

    async def execute(self) -> Outcome:
        """Run the root policy to its end and record its outcome; a finished run gives what is recorded.

        Raises `NonDeterminismError` when it does not do what is recorded, `ClaimLost` when somebody else has taken it
        over, and whatever a policy raises; the journal is safe in each case, and nothing of the run goes on.
        """
        root = self._recorder.root
        if root.outcome is None or self._again:
            self._recorder.begin(again=self._again)
            await self._orchestrate(self._root, self._registry[self._root.action.policy], root, (), self._seed)
        assert root.outcome is not None
        return root.outcome

    def admit(self, action: Action) -> Action:
        """The action, if it stays below the ceiling; one that names no actions has those that its policy declares.

        Raises `ActionNotAllowed`, `UnknownPolicy`.
        """
        policy = self._registry[action.policy]
        for name in sorted((action.actions | {action.policy}) - self._ceiling):
            raise ActionNotAllowed(self._registry[name].name, self._ceiling)
        if action.actions or not policy.actions:
            return action
        return Action(action.policy, action.payload, policy.actions & self._ceiling)

    async def perform(self, call: Call, decorators: Sequence[Decorator] = (), seed: Ledger | None = None) -> Outcome:
        """The outcome of a call: the recorded one, or else that of doing it now."""
        policy, recorder = self._registry[call.action.policy], self._recorder
        slot = recorder.take(call)
        is_new = slot is None
        if slot is None:
            if recorder.is_recorded(call.id):
                raise KeyReused(call.key)
            slot = recorder.open(call)
        under_way, task = self._under_way[call.scope], asyncio.current_task()
        assert task is not None
        under_way.add(task)
        order = recorder.order(call.scope)
        order.made(slot, side_by_side=task is not self._tasks.get(call.scope))
        try:
            self._compare(slot, call)
            if slot.outcome is None or self._again:
                await self._go_on(call, policy, slot, decorators, Ledger() if seed is None else seed, is_new)
            await order.turn(slot)
        except BaseException:  # whatever it is: nobody waits for this call any more
            order.abandon(slot)
            recorder.forget(call.id)
            raise
        finally:
            under_way.discard(task)
        assert slot.outcome is not None
        return slot.outcome

    async def version(self, name: str, minimum: int, maximum: int) -> int:
        """See `Context.version`."""
        versions = self._recorder.versions
        if name not in versions:
            if self._recorder.replaying:
                versions[name] = minimum  # it was here before, when there was no marker
            else:
                self._require_writing(f"asks for its version of {name!r}")
                await self._recorder.write_version(name, maximum)
        if not minimum <= versions[name] <= maximum:
            raise UnsupportedVersion(name, versions[name], minimum, maximum)
        return versions[name]

    async def _go_on(
        self,
        call: Call,
        policy: PolicyInfo,
        slot: Slot,
        decorators: Sequence[Decorator],
        seed: Ledger,
        is_new: bool,
    ) -> None:
        """See to it that the call has an outcome in the journal."""
        refusal = None if decorators else _refusal(call, policy)
        if slot.outcome is None and not await (
            self._begin(call, policy, refusal) if is_new else self._resume(call, policy, slot, refusal)
        ):
            return
        if slot.outcome is not None and refusal is not None:
            return
        if decorators or policy.kind is PolicyKind.ORCHESTRATOR:
            await self._orchestrate(call, policy, slot, decorators, seed)
        elif slot.outcome is not None:
            return
        elif policy.name == SLEEP:
            await self._waiting.sleep(call, slot)
        elif policy.name == EVENT:
            await self._waiting.wait_for_event(call, slot)
        elif policy.function is None:
            await self._waiting.wait_for_answer(call, policy, slot)
        else:
            await self._doing.effect(call, policy, policy.function, slot, seed)

    async def _begin(self, call: Call, policy: PolicyInfo, refusal: Step | None) -> bool:
        """Record a call that was never made; gives whether it is to be made now."""
        if policy.retry is not None:
            self._recorder.retrying(f"calls {policy.name!r}")
        if policy.name in (SLEEP, EVENT):
            self._recorder.durable(f"calls {policy.name!r}")
        is_scope = bool(call.decorators) or policy.kind is PolicyKind.ORCHESTRATOR
        if is_scope and refusal is None and self._recorder.follows(call):
            await self._recorder.write_call(call, 1)
            return True
        await self._catch_up_to(call, lambda: f"calls {call.action.policy!r} with {short(call.action.payload)}")
        if refusal is not None:
            await self._recorder.write_refused(call, [refusal])
            return False
        await self._recorder.write_call(call, 1)
        return True

    async def _resume(self, call: Call, policy: PolicyInfo, slot: Slot, refusal: Step | None) -> bool:
        """Go on with a call that was recorded and then cut off; gives whether it is to be made now."""
        is_scope = bool(call.decorators) or policy.kind is PolicyKind.ORCHESTRATOR
        if is_scope and refusal is None:
            return True
        await self._catch_up_to(call, lambda: f"waits for the outcome of {policy.name!r}")
        if is_scope or policy.function is None:
            pass
        elif slot.retry_at is None and not policy.repeatable and not policy.idempotent:
            message = f"{policy.name} was cut off: it may have happened, in part or in whole, and was not run again"
            refusal = error_result(policy.name, "in_doubt", message)
        elif slot.retry_at is not None:
            await sleep_until(self.clock, slot.retry_at)
        if refusal is not None:
            await self._recorder.write_outcome(call, [refusal])
            return False
        if slot.retry_at is not None or (policy.repeatable and policy.function is not None):
            await self._recorder.write_call(call, slot.attempts + 1)
        return True

    async def _orchestrate(
        self, call: Call, policy: PolicyInfo, slot: Slot, decorators: Sequence[Decorator], seed: Ledger
    ) -> None:
        function, allowed = policy.function, call.action.actions
        if decorators or policy.kind is PolicyKind.EFFECT:  # the latter as the root of a run
            function, allowed = bare, allowed | {policy.name}
        assert function is not None
        for decorator in reversed(decorators):
            function = decorator(function)
        context = ScopeContext(self, call, allowed, slot.time, seed)
        self._tasks[call.id] = asyncio.current_task()
        try:
            steps = checked(policy.name, await function(call.action, context))
        finally:
            context.end()
            del self._tasks[call.id]
            await self._stop(call.id)
        for left in self._recorder.unclaimed(call.id).values():
            raise NonDeterminismError(self._root.id, left.described, f"ends {policy.name} without it")
        self._recorder.forget(call.id)
        if slot.outcome is None:  # else it was recorded together with that of its last call, or before
            self._require_writing(f"ends {policy.name}")
            refuse_cancelled()
            await self._recorder.write_outcome(call, steps)
        elif self._again and [_said(step) for step in steps] != [_said(step) for step in slot.outcome.steps]:
            recorded = f"{policy.name} ending with {short(slot.outcome.steps)}"
            raise NonDeterminismError(self._root.id, recorded, f"ends it with {short(steps)}")

    async def _stop(self, scope: str) -> None:
        """Cancel what the policy of a scope left behind, and wait until it has ended."""
        left = self._under_way.pop(scope, set[asyncio.Task[object]]()) - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _catch_up_to(self, call: Call, does: Callable[[], str]) -> None:
        """Wait until the call's scope has done all that is recorded."""
        await self._recorder.order(call.scope).caught_up(does)
        if not self._recorder.may_write:
            raise ReplayEnded(does())

    def _require_writing(self, does: str) -> None:
        if not self._recorder.may_write:
            raise ReplayEnded(does)

    def _compare(self, slot: Slot, call: Call) -> None:
        recorded, now = slot.action, call.action
        if recorded is None:
            return
        if recorded.policy != now.policy or recorded.payload != now.payload:
            does = f"calls {now.policy!r} with {short(now.payload)}"
            raise NonDeterminismError(self._root.id, slot.described, does)
        if slot.seed is not None and slot.seed != call.seed:
            recorded_so = f"{slot.described} over the ledger {slot.seed}"
            raise NonDeterminismError(self._root.id, recorded_so, f"calls it over the ledger {call.seed}")


def _refusal(call: Call, policy: PolicyInfo) -> Step | None:
    """Why this payload is nothing for the policy; None if it is."""
    if policy.arguments is None:
        return None
    try:
        policy.arguments.read(call.action.payload)
    except ArgumentsInvalid as error:
        return error_result(policy.name, "invalid_payload", readable(str(error)))
    return None


def _said(step: Step) -> tuple[object, ...]:
    return step.actor, step.type, step.payload
