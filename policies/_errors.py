"""Every error that the engine raises, with the facts as fields and the cure in the message."""

from __future__ import annotations

from collections.abc import Iterable


class PolicyError(Exception):
    """Base of all errors of this package."""


class InvalidPayload(PolicyError, ValueError):
    """A payload that JSON cannot hold."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"this cannot be a payload: {reason}")
        self.reason = reason


class UnknownPolicy(PolicyError):
    """A policy that nobody registered."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name, self.known = name, tuple(known)
        super().__init__(f"policy {name!r} is not registered; registered are: {', '.join(self.known) or 'none'}")


class ActionNotAllowed(PolicyError):
    """Code calls a policy that is not among the actions it was given."""

    def __init__(self, name: str, allowed: Iterable[str]) -> None:
        self.name, self.allowed = name, tuple(sorted(allowed))
        super().__init__(f"policy {name!r} is not among the allowed actions ({', '.join(self.allowed) or 'none'})")


class EffectCalls(PolicyError):
    """An effect tries to call another policy; only an orchestrator may, since an effect is not replayed."""

    def __init__(self, name: str) -> None:
        super().__init__(f"an effect calls {name!r}: register it as an orchestrator, or let its caller make the call")
        self.name = name


class KeyReused(PolicyError):
    """Two calls of one scope have the same explicit key."""

    def __init__(self, key: str) -> None:
        super().__init__(f"key {key!r} names two calls of one scope; give each call a key of its own")
        self.key = key


class NonDeterminismError(PolicyError):
    """The policy no longer does what its journal says that it did.

    `recorded` names what stands in the journal, `called` what the policy does now.
    """

    def __init__(self, run: str, recorded: str, called: str) -> None:
        super().__init__(
            f"run {run} has drifted: recorded is {recorded}, but the policy now {called}; "
            "its code has changed, or reads something that is not in its ledger"
        )
        self.run, self.recorded, self.called = run, recorded, called
