"""Decorators: what is done around a policy. One repeats it, one makes the calls that it decided on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Protocol, cast

from policies._action import Action
from policies._errors import InvalidPayload
from policies._ledger import Ledger
from policies._step import ACTION_CALL, Step, error_result

if TYPE_CHECKING:
    from policies._context import Context
    from policies._registry import Policy


class Decorator(Protocol):
    """A function from policy to policy. Its name is part of how a decorated call is found again."""

    @property
    def __name__(self) -> str: ...

    def __call__(self, policy: Policy, /) -> Policy:
        """The policy with something around it."""
        ...


def loop_wrapper(max_turns: int) -> Callable[[Policy], Policy]:
    """Run the policy again and again, until a turn has no `action_call` step, at most `max_turns` times.

    Gives the steps of all turns. Each turn's `ctx.get_ledger()` shows what the turns before it came to, behind what
    the scope began with. After the last turn there may be calls that nobody looked at any more. Raises `ValueError`
    for less than one turn.
    """
    if max_turns < 1:
        raise ValueError(f"max_turns={max_turns}: a loop has at least one turn")

    def loop_wrapper(policy: Policy) -> Policy:
        @wraps(policy)
        async def looped(action: Action, ctx: Context) -> Sequence[Step]:
            history = await ctx.get_ledger()
            done: list[Step] = []
            for _ in range(max_turns):
                steps = await policy(action, TurnContext(ctx, history, len(await ctx.get_ledger())))
                history = history.extend(steps)
                done.extend(steps)
                if not any(step.type == ACTION_CALL for step in steps):
                    break
            return done

        return looped

    return loop_wrapper


def invoke_action() -> Callable[[Policy], Policy]:
    """Make the calls that the policy decided on: every `action_call` step is followed by the steps of its outcome.

    They are made in order. What is not on the menu of the action, or is no call at all, becomes an error result that
    says so: whoever decided, mostly a model, reads it and decides again.
    """

    def invoke_action(policy: Policy) -> Policy:
        @wraps(policy)
        async def invoking(action: Action, ctx: Context) -> Sequence[Step]:
            done: list[Step] = []
            for step in await policy(action, ctx):
                done.append(step)
                if step.type == ACTION_CALL:
                    done.extend(await _invoke(step, action.actions, ctx))
            return done

        return invoking

    return invoke_action


async def bare(action: Action, ctx: Context) -> Sequence[Step]:
    """What a decorated call has at its core: the policy itself, which sees the ledger of the scope around it."""
    return await ctx.call(action, ledger=await ctx.get_ledger())


class TurnContext:
    """The context of one turn of a loop: that of the scope, with the loop's view of its ledger."""

    def __init__(self, ctx: Context, history: Ledger, begun: int) -> None:
        self._ctx, self._history, self._begun = ctx, history, begun

    def __repr__(self) -> str:
        return f"<TurnContext of {self._ctx!r} {self._history!r}>"

    @property
    def id(self) -> str:
        """See `Context.id`."""
        return self._ctx.id

    @property
    def attempt(self) -> int:
        """See `Context.attempt`."""
        return self._ctx.attempt

    async def call(
        self,
        action: Action,
        decorators: Sequence[Decorator] = (),
        *,
        key: str | None = None,
        ledger: Iterable[Step] = (),
    ) -> list[Step]:
        """See `Context.call`."""
        return await self._ctx.call(action, decorators, key=key, ledger=ledger)

    async def sleep(self, seconds: float) -> None:
        """See `Context.sleep`."""
        await self._ctx.sleep(seconds)

    async def sleep_until(self, when: float) -> None:
        """See `Context.sleep_until`."""
        await self._ctx.sleep_until(when)

    async def wait_for_event(self, name: str, *, timeout_s: float | None = None) -> Step:
        """See `Context.wait_for_event`."""
        return await self._ctx.wait_for_event(name, timeout_s=timeout_s)

    async def version(self, name: str, minimum: int, maximum: int) -> int:
        """See `Context.version`."""
        return await self._ctx.version(name, minimum, maximum)

    async def get_ledger(self) -> Ledger:
        """What the turns before this one came to, and what this one has done so far."""
        return self._history.extend((await self._ctx.get_ledger())[self._begun :])

    def now(self) -> float:
        """See `Context.now`."""
        return self._ctx.now()

    def random(self) -> float:
        """See `Context.random`."""
        return self._ctx.random()

    def new_id(self) -> str:
        """See `Context.new_id`."""
        return self._ctx.new_id()


async def _invoke(step: Step, menu: frozenset[str], ctx: Context) -> list[Step]:
    policy, payload = step.payload.get("policy"), step.payload.get("payload", {})
    if not isinstance(policy, str) or not isinstance(payload, Mapping):
        message = "an action_call has a `policy` that is a name and a `payload` that is an object"
        return [error_result(str(policy), "bad_call", message)]
    if policy not in menu:
        message = f"{policy!r} is not among the actions you may take: {', '.join(sorted(menu)) or 'there are none'}"
        return [error_result(policy, "not_allowed", message)]
    try:
        action = Action(policy, cast("Mapping[str, Any]", payload))
    except InvalidPayload as error:
        return [error_result(policy, "bad_call", str(error))]
    return await ctx.call(action)
