"""The context: the only way from a policy to the world, to other policies, to time and to chance."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING, Protocol

from journals import derive_id
from policies._action import Action
from policies._codec import Call, Outcome
from policies._errors import ActionNotAllowed, EffectCalls
from policies._freeze import fingerprint
from policies._ledger import Ledger
from policies._step import Step, action_call

if TYPE_CHECKING:
    from policies._run import Run


class Context(Protocol):
    """What a policy is given beside its action.

    `id` is the id of the call that it serves: the same after a crash, so an effect can use it as idempotency key.
    `attempt` counts from 1. Time, chance and new ids are the same again when an orchestrator is replayed.
    """

    @property
    def id(self) -> str:
        """The id of the call that this policy serves."""
        ...

    @property
    def attempt(self) -> int:
        """Which attempt of an effect this is, from 1."""
        ...

    async def call(self, action: Action, *, key: str | None = None) -> list[Step]:
        """Call another policy and give its steps; a recorded outcome is given without running anything.

        A call is found again by its policy, its payload and its occurrence among equal calls of this scope, taken
        now, before anything is awaited; or by `key`, which must then be this call's alone.
        Raises `ActionNotAllowed`, `UnknownPolicy`, `KeyReused`, `NonDeterminismError`, and `EffectCalls` in an effect.
        """
        ...

    async def get_ledger(self) -> Ledger:
        """What this scope has done so far."""
        ...

    def now(self) -> float:
        """The time of the newest outcome that this scope was given, in seconds since the epoch."""
        ...

    def random(self) -> float:
        """A number from 0 up to and not including 1, drawn from the scope's id."""
        ...

    def new_id(self) -> str:
        """An id that nothing else has."""
        ...


class _Deterministic:
    """Time, chance and ids out of the call's own id."""

    def __init__(self, id: str, attempt: int, now: float) -> None:
        self._id, self._attempt, self._now = id, attempt, now
        self._drawn = 0
        self._ids = 0

    @property
    def id(self) -> str:
        return self._id

    @property
    def attempt(self) -> int:
        return self._attempt

    def now(self) -> float:
        return self._now

    def random(self) -> float:
        self._drawn += 1
        digest = hashlib.blake2b(f"{self._id} random {self._drawn}".encode(), digest_size=8).digest()
        return (int.from_bytes(digest) >> 11) / (1 << 53)

    def new_id(self) -> str:
        self._ids += 1
        return derive_id(self._id, "new", self._ids)


class EffectContext(_Deterministic):
    """The context of an effect: it makes no calls and has no ledger."""

    async def call(self, action: Action, *, key: str | None = None) -> list[Step]:
        """Always raises `EffectCalls`."""
        raise EffectCalls(action.policy)

    async def get_ledger(self) -> Ledger:
        """An empty ledger."""
        return Ledger()


class ScopeContext(_Deterministic):
    """The context of an orchestrator: one scope with a ledger of its own."""

    def __init__(self, run: Run, call: Call, now: float) -> None:
        super().__init__(call.id, 1, now)
        self._run, self._actor, self._actions = run, call.action.policy, call.action.actions
        self._ledger = Ledger()
        self._occurrences: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<ScopeContext of {self._actor} {self._id} {self._ledger!r}>"

    async def call(self, action: Action, *, key: str | None = None) -> list[Step]:
        """See `Context.call`."""
        if action.policy not in self._actions:
            raise ActionNotAllowed(action.policy, self._actions)
        if key is None:
            content = f"{action.policy}:{fingerprint(action.payload)}"
            self._occurrences[content] += 1
            key = f"{content}:{self._occurrences[content]}"
        call = Call(derive_id(self._id, key), self._id, key, action)
        self._ledger = self._ledger.append(action_call(self._actor, action, id=call.id))
        outcome = await self._run.perform(call)
        self._take_in(outcome)
        return list(outcome.steps)

    async def get_ledger(self) -> Ledger:
        """See `Context.get_ledger`."""
        return self._ledger

    def _take_in(self, outcome: Outcome) -> None:
        self._ledger = self._ledger.extend(outcome.steps)
        self._now = max(self._now, outcome.time)
