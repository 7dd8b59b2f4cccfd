"""The registry: policies by name, with what callers and models need to know of them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from policies._action import Action
from policies._arguments import Arguments, adapt
from policies._context import EVENT, SLEEP
from policies._errors import UnknownPolicy
from policies._retry import Retry
from policies._step import Step

if TYPE_CHECKING:
    from policies._context import Context

Policy = Callable[[Action, "Context"], Awaitable[Sequence[Step]]]
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


class PolicyKind(StrEnum):
    """How a policy survives a crash."""

    ORCHESTRATOR = "orchestrator"
    """Decides and calls others through its context. It is run again and must decide the same again."""
    EFFECT = "effect"
    """Touches the world and makes no calls. Its outcome is recorded."""


class PolicyInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One registered policy.

    What happens to an effect that was cut off before its outcome was recorded: an `idempotent` one is run again under
    the same call id, a `repeatable` one is run again as a new recorded attempt, any other becomes an in-doubt fault.
    An effect without a function is answered from outside: whoever serves it brings the outcome into the journal;
    `timeout_s` seconds after the call was recorded the engine records a fault in its place. `retry` says which of its
    exceptions are tried again. `actions` are what it may call where its caller names nothing. A payload that
    `arguments` cannot read never reaches the function: the call's outcome is an error result.
    """

    name: str
    kind: PolicyKind
    function: Policy | None
    idempotent: bool = False
    repeatable: bool = False
    timeout_s: float | None = None
    description: str = ""
    input_schema: Mapping[str, Any] = {}
    retry: Retry | None = None
    actions: frozenset[str] = frozenset()
    arguments: Arguments | None = None


SLEEP_INFO: Final = PolicyInfo(name=SLEEP, kind=PolicyKind.EFFECT, function=None)
EVENT_INFO: Final = PolicyInfo(name=EVENT, kind=PolicyKind.EFFECT, function=None)
_OWN: Final = {SLEEP: SLEEP_INFO, EVENT: EVENT_INFO}


class PolicyRegistry:
    """Policies by name."""

    def __init__(self) -> None:
        self._policies: dict[str, PolicyInfo] = {}

    def __repr__(self) -> str:
        return f"<PolicyRegistry {', '.join(self._policies) or 'empty'}>"

    def __contains__(self, name: str) -> bool:
        return name in self._policies

    def __getitem__(self, name: str) -> PolicyInfo:
        """Raises `UnknownPolicy`."""
        info = self._policies.get(name) or _OWN.get(name)
        if info is None:
            raise UnknownPolicy(name, self._policies)
        return info

    @property
    def names(self) -> tuple[str, ...]:
        """All registered names, in order of registration."""
        return tuple(self._policies)

    def policy(
        self,
        name: str | None = None,
        *,
        kind: PolicyKind = PolicyKind.EFFECT,
        idempotent: bool = False,
        repeatable: bool = False,
        retry: Retry | None = None,
        actions: Iterable[str] = (),
        payload: Any = None,
        description: str | None = None,
        input_schema: Mapping[str, Any] | None = None,
    ) -> Callable[[FunctionT], FunctionT]:
        """Register the decorated function, by its own name unless one is given.

        Its docstring is the description unless one is given. Its JSON Schema comes from `payload` (a msgspec struct, a
        dataclass or a pydantic model), or from its signature where that is not `(action, ctx)`; every payload is then
        checked against it. An `input_schema` is passed on as it stands, and nothing is checked.

        Raises `ValueError` for a name that is taken, `TypeError` for a signature that is none.
        """

        if callable(name):
            raise TypeError("write the decorator with parentheses: @registry.policy()")

        def register(function: FunctionT) -> FunctionT:
            called = name or function.__name__
            told = inspect.getdoc(function) if description is None else description
            policy, arguments = adapt(called, function, payload)
            schema: Mapping[str, Any] = {} if arguments is None else arguments.schema
            self.add(
                PolicyInfo(
                    name=called,
                    kind=kind,
                    function=policy,
                    idempotent=idempotent,
                    repeatable=repeatable,
                    description=told or "",
                    input_schema=schema if input_schema is None else input_schema,
                    retry=retry,
                    actions=frozenset(actions),
                    arguments=arguments,
                )
            )
            return function

        return register

    register = policy

    def orchestrator(
        self,
        name: str | None = None,
        *,
        actions: Iterable[str] = (),
        payload: Any = None,
        description: str | None = None,
        input_schema: Mapping[str, Any] | None = None,
    ) -> Callable[[FunctionT], FunctionT]:
        """`policy` for one that decides and calls others."""
        return self.policy(
            name,
            kind=PolicyKind.ORCHESTRATOR,
            actions=actions,
            payload=payload,
            description=description,
            input_schema=input_schema,
        )

    def effect(
        self,
        name: str | None = None,
        *,
        idempotent: bool = False,
        repeatable: bool = False,
        retry: Retry | None = None,
        payload: Any = None,
        description: str | None = None,
        input_schema: Mapping[str, Any] | None = None,
    ) -> Callable[[FunctionT], FunctionT]:
        """`policy` for one that touches the world."""
        return self.policy(
            name,
            idempotent=idempotent,
            repeatable=repeatable,
            retry=retry,
            payload=payload,
            description=description,
            input_schema=input_schema,
        )

    def register_awaited(
        self,
        name: str,
        *,
        timeout_s: float | None,
        description: str = "",
        input_schema: Mapping[str, Any] | None = None,
    ) -> None:
        """Register an effect that is answered from outside: for a branch, into whose journal routes bring the answer.

        A run in a journal of runs uses `ctx.wait_for_event` instead. Raises `ValueError` for a name that is taken.
        """
        self.add(
            PolicyInfo(
                name=name,
                kind=PolicyKind.EFFECT,
                function=None,
                timeout_s=timeout_s,
                description=description,
                input_schema=input_schema or {},
            )
        )

    def add(self, policy: PolicyInfo) -> None:
        """Register a policy whose particulars are known. Raises `ValueError` for a name that is taken."""
        if policy.name in _OWN or self._policies.setdefault(policy.name, policy) is not policy:
            raise ValueError(f"a policy named {policy.name!r} is registered already; give one of them another name")
