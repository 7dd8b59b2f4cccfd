"""The registry: policies by name, with what callers and models need to know of them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from policies._action import Action
from policies._errors import UnknownPolicy
from policies._step import Step

if TYPE_CHECKING:
    from policies._context import Context

Policy = Callable[[Action, "Context"], Awaitable[Sequence[Step]]]
PolicyT = TypeVar("PolicyT", bound=Policy)


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
    `timeout_s` seconds after the call was recorded the engine records a fault in its place.
    """

    name: str
    kind: PolicyKind
    function: Policy | None
    idempotent: bool = False
    repeatable: bool = False
    timeout_s: float | None = None
    description: str = ""
    input_schema: Mapping[str, Any] = {}


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
        try:
            return self._policies[name]
        except KeyError:
            raise UnknownPolicy(name, self._policies) from None

    @property
    def names(self) -> tuple[str, ...]:
        """All registered names, in order of registration."""
        return tuple(self._policies)

    def register(
        self,
        name: str,
        *,
        kind: PolicyKind = PolicyKind.EFFECT,
        idempotent: bool = False,
        repeatable: bool = False,
        description: str | None = None,
        input_schema: Mapping[str, Any] | None = None,
    ) -> Callable[[PolicyT], PolicyT]:
        """Register the decorated function. Its docstring is the description unless one is given.

        Raises `ValueError` for a name that is taken.
        """

        def register(function: PolicyT) -> PolicyT:
            told = inspect.getdoc(function) if description is None else description
            self._add(
                PolicyInfo(
                    name=name,
                    kind=kind,
                    function=function,
                    idempotent=idempotent,
                    repeatable=repeatable,
                    description=told or "",
                    input_schema=input_schema or {},
                )
            )
            return function

        return register

    def register_awaited(
        self,
        name: str,
        *,
        timeout_s: float | None,
        description: str = "",
        input_schema: Mapping[str, Any] | None = None,
    ) -> None:
        """Register an effect that is answered from outside. Raises `ValueError` for a name that is taken."""
        self._add(
            PolicyInfo(
                name=name,
                kind=PolicyKind.EFFECT,
                function=None,
                timeout_s=timeout_s,
                description=description,
                input_schema=input_schema or {},
            )
        )

    def _add(self, policy: PolicyInfo) -> None:
        if self._policies.setdefault(policy.name, policy) is not policy:
            raise ValueError(f"a policy named {policy.name!r} is registered already; give one of them another name")
