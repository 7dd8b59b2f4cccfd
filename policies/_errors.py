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
    """An effect does what only an orchestrator may, since an effect is not replayed."""

    def __init__(self, does: str) -> None:
        super().__init__(f"an effect {does}: register it as an orchestrator, or leave this to its caller")
        self.does = does


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


class NotDurable(PolicyError):
    """This run's journal has no entries for what the policy does."""

    def __init__(self, does: str, codec: str, wanted: str) -> None:
        super().__init__(f"the policy {does}, which {codec} cannot record: give it the methods of {wanted}")
        self.does, self.codec, self.wanted = does, codec, wanted


class ScopeEnded(PolicyError):
    """A call is made in the name of a policy that has returned already."""

    def __init__(self, scope: str, does: str) -> None:
        super().__init__(f"{scope!r} has returned, but something that it started {does}; await it before returning")
        self.scope, self.does = scope, does


class ReplayEnded(PolicyError):
    """A run that is only looked at has come to where its journal ends."""

    def __init__(self, does: str) -> None:
        super().__init__(f"the journal ends where the policy {does}")
        self.does = does


class UnsupportedVersion(PolicyError):
    """An open run stands at a version of a policy's code that this code no longer has."""

    def __init__(self, name: str, recorded: int, minimum: int, maximum: int) -> None:
        super().__init__(
            f"the run goes by version {recorded} of {name!r}, this code has {minimum} to {maximum}; "
            "finish the run with the code that it began with"
        )
        self.name, self.recorded, self.minimum, self.maximum = name, recorded, minimum, maximum


class UnknownRun(PolicyError):
    """No run of this id was ever begun in this journal."""

    def __init__(self, run_id: str, journal: str) -> None:
        super().__init__(f"journal {journal!r} has no run {run_id!r}; begin it with `run`")
        self.run_id, self.journal = run_id, journal


class RunConflict(PolicyError):
    """A run id that was used already for something else."""

    def __init__(self, run_id: str, what: str, recorded: object, given: object) -> None:
        super().__init__(
            f"run {run_id!r} was begun with another {what}: recorded is {recorded!r}, given is {given!r}; "
            "go on with it by `resume`, or use another run id"
        )
        self.run_id, self.what, self.recorded, self.given = run_id, what, recorded, given


class RunUnreadable(PolicyError):
    """A run holds an entry that this program cannot read, so that nobody knows what has happened in it."""

    def __init__(self, run_id: str, kind: str, reason: str) -> None:
        super().__init__(f"run {run_id!r} is left alone: its {kind} cannot be read: {reason}")
        self.run_id, self.kind, self.reason = run_id, kind, reason
