"""The context: the only way from a policy to the world, to other policies, to time and to chance."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NoReturn, Protocol, cast

from journals import derive_id
from policies._action import Action
from policies._codec import Call, Outcome
from policies._errors import ActionNotAllowed, EffectCalls, KeyReused, ScopeEnded
from policies._freeze import fingerprint
from policies._ledger import Ledger
from policies._step import Step, action_call

if TYPE_CHECKING:
    from policies._decorators import Decorator
    from policies._run import Run

SLEEP: Final = "@sleep"
"""The policy of the engine's own that lets time pass."""
EVENT: Final = "@event"
"""The policy of the engine's own that waits for something outside."""
_EMPTY: Final = Ledger()


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

    async def call(
        self,
        action: Action,
        decorators: Sequence[Decorator] = (),
        *,
        key: str | None = None,
        ledger: Iterable[Step] = (),
    ) -> list[Step]:
        """Call another policy and give its steps; a recorded outcome is given without running anything.

        A call is found again by its policy, its payload and its occurrence among equal calls of this scope, taken
        now, before anything is awaited; or by `key`, which must then be this call's alone. The called policy has a
        ledger of its own that begins with `ledger`. With decorators the call is a scope of its own around the bare
        policy; the first one is the outermost.

        Raises `ActionNotAllowed`, `UnknownPolicy`, `KeyReused`, `NonDeterminismError`, and `EffectCalls` in an effect.
        """
        ...

    async def sleep(self, seconds: float) -> None:
        """Let this much time pass; what is left of it after a restart is waited then."""
        ...

    async def sleep_until(self, when: float) -> None:
        """Go on at this time, in seconds since the epoch; at once if it is past."""
        ...

    async def wait_for_event(self, name: str, *, timeout_s: float | None = None) -> Step:
        """Wait until somebody outside calls `signal` with this name, for days if need be, and give what it said.

        Each signal answers one waiting. After `timeout_s` seconds, counted over restarts, the step is an error result
        with the code `timeout`.
        """
        ...

    async def version(self, name: str, minimum: int, maximum: int) -> int:
        """Which version of its code this run goes by, at a place where the code was changed.

        A run that gets here for the first time gets `maximum` and keeps it for all its life; one that was past this
        place before the marker stood here gets `minimum`. Raises `UnsupportedVersion` when the run goes by another.
        """
        ...

    async def get_ledger(self) -> Ledger:
        """What this scope has done so far, behind what it began with."""
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

    def __init__(self, id: str, attempt: int, now: float, ledger: Ledger) -> None:
        self._id, self._attempt, self._now, self._ledger = id, attempt, now, ledger
        self._drawn = 0
        self._ids = 0

    @property
    def id(self) -> str:
        return self._id

    @property
    def attempt(self) -> int:
        return self._attempt

    async def get_ledger(self) -> Ledger:
        """See `Context.get_ledger`."""
        return self._ledger

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
    """The context of an effect: it makes no calls, so all that would be recorded as one raises `EffectCalls`."""

    async def call(
        self,
        action: Action,
        decorators: Sequence[Decorator] = (),
        *,
        key: str | None = None,
        ledger: Iterable[Step] = (),
    ) -> NoReturn:
        """Always raises `EffectCalls`."""
        raise EffectCalls(f"calls {action.policy!r}")

    async def sleep(self, seconds: float) -> NoReturn:
        """Always raises `EffectCalls`."""
        raise EffectCalls("sleeps")

    async def sleep_until(self, when: float) -> NoReturn:
        """Always raises `EffectCalls`."""
        raise EffectCalls("sleeps")

    async def wait_for_event(self, name: str, *, timeout_s: float | None = None) -> NoReturn:
        """Always raises `EffectCalls`."""
        raise EffectCalls(f"waits for {name!r}")

    async def version(self, name: str, minimum: int, maximum: int) -> NoReturn:
        """Always raises `EffectCalls`."""
        raise EffectCalls(f"asks for its version of {name!r}")


class ScopeContext(_Deterministic):
    """The context of an orchestrator: one scope with a ledger of its own."""

    def __init__(self, run: Run, call: Call, allowed: frozenset[str], now: float, ledger: Ledger) -> None:
        super().__init__(call.id, 1, now, ledger)
        self._run, self._actor, self._allowed = run, call.action.policy, allowed
        self._occurrences: Counter[str] = Counter()
        self._keys: set[str] = set()
        self._happened: list[tuple[Action, str] | tuple[Step, ...]] = []
        self._ended = False

    def __repr__(self) -> str:
        return f"<ScopeContext of {self._actor} {self._id}, {self._occurrences.total() + len(self._keys)} calls>"

    async def get_ledger(self) -> Ledger:
        """See `Context.get_ledger`. It is put together when it is asked for, which most policies never do."""
        happened, self._happened = self._happened, []
        for each in happened:
            if isinstance(each[0], Action):
                action, id = cast("tuple[Action, str]", each)
                self._ledger = self._ledger.append(action_call(self._actor, action, id=id))
            else:
                self._ledger = self._ledger.extend(cast("tuple[Step, ...]", each))
        return self._ledger

    def end(self) -> None:
        """The policy has returned: nothing may be called in its name any more."""
        self._ended = True

    async def call(
        self,
        action: Action,
        decorators: Sequence[Decorator] = (),
        *,
        key: str | None = None,
        ledger: Iterable[Step] = (),
    ) -> list[Step]:
        """See `Context.call`."""
        if action.policy not in self._allowed:
            raise ActionNotAllowed(action.policy, self._allowed)
        action = self._run.admit(action)
        names = tuple(decorator.__name__ for decorator in decorators)
        seed = ledger if isinstance(ledger, Ledger) else Ledger(ledger) if ledger else _EMPTY
        said = f"calls {action.policy!r}"
        outcome = await self._perform(action, said, key=key, names=names, decorators=decorators, seed=seed)
        return list(outcome.steps)

    async def sleep(self, seconds: float) -> None:
        """See `Context.sleep`."""
        due = round(self._run.clock.now() + seconds, 6)
        await self._perform(Action(SLEEP, {"seconds": seconds}), "sleeps", due=due)

    async def sleep_until(self, when: float) -> None:
        """See `Context.sleep_until`."""
        await self._perform(Action(SLEEP, {"until": when}), "sleeps", due=when)

    async def wait_for_event(self, name: str, *, timeout_s: float | None = None) -> Step:
        """See `Context.wait_for_event`."""
        due = None if timeout_s is None else round(self._run.clock.now() + timeout_s, 6)
        action = Action(EVENT, {"event": name, "timeout_s": timeout_s})
        return (await self._perform(action, f"waits for {name!r}", due=due)).steps[0]

    async def version(self, name: str, minimum: int, maximum: int) -> int:
        """See `Context.version`."""
        self._refuse_ended(f"asks for its version of {name!r}")
        return await self._run.version(name, minimum, maximum)

    async def _perform(
        self,
        action: Action,
        does: str,
        *,
        key: str | None = None,
        due: float | None = None,
        names: tuple[str, ...] = (),
        decorators: Sequence[Decorator] = (),
        seed: Ledger = _EMPTY,
    ) -> Outcome:
        self._refuse_ended(does)
        if key is None:
            what = "".join(f"{name}(" for name in names) + action.policy
            content = f"{what}:{fingerprint(action.payload)}"
            self._occurrences[content] += 1
            key = f"{content}:{self._occurrences[content]}"
        elif key in self._keys:
            raise KeyReused(key)
        else:
            self._keys.add(key)
        call = Call(derive_id(self._id, key), self._id, key, action, names, seed.digest, due)
        self._happened.append((action, call.id))
        outcome = await self._run.perform(call, decorators, seed)
        if outcome.steps:
            self._happened.append(outcome.steps)
        self._now = max(self._now, outcome.time)
        return outcome

    def _refuse_ended(self, does: str) -> None:
        if self._ended:
            raise ScopeEnded(self._actor, does)
