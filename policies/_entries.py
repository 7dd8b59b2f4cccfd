"""The entries of a journal of runs: what is called, what came of it, and what is waited for. A session is a run."""

from __future__ import annotations

from typing import Any

import msgspec

from journals import Entry, EntryRegistry
from policies._step import Step


class StepData(msgspec.Struct, frozen=True):
    """A step without its id, which derives from the call that gave it."""

    actor: str
    type: str
    payload: dict[str, Any]

    @classmethod
    def of(cls, step: Step) -> StepData:
        """What is recorded of a step."""
        return cls(step.actor, step.type, dict(step.payload))

    @property
    def step(self) -> Step:
        """The step, with an id still to be set."""
        return Step("", self.actor, self.type, self.payload)


class SeedStep(msgspec.Struct, frozen=True):
    """A step that a run began with, under its own id."""

    id: str
    actor: str
    type: str
    payload: dict[str, Any]

    @classmethod
    def of(cls, step: Step) -> SeedStep:
        """What is recorded of a step."""
        return cls(step.id, step.actor, step.type, dict(step.payload))

    @property
    def step(self) -> Step:
        """The step."""
        return Step(self.id, self.actor, self.type, self.payload)


class RunStarted(Entry, frozen=True, kw_only=True):
    """A run is to be: its root policy with its payload, what it may call, and the ledger that it begins with."""

    policy: str
    payload: dict[str, Any]
    actions: tuple[str, ...]
    ledger: tuple[SeedStep, ...] = ()


class PolicyCalled(Entry, frozen=True, kw_only=True):
    """A policy of a scope calls another; written before it runs. `seed` is the digest of the ledger given to it."""

    call: str
    scope: str
    policy: str
    payload: dict[str, Any]
    actions: tuple[str, ...] = ()
    decorators: tuple[str, ...] = ()
    seed: str | None = None


class PolicyReturned(Entry, frozen=True, kw_only=True):
    """What a call came to."""

    call: str
    steps: tuple[StepData, ...]


class AttemptFailed(Entry, frozen=True, kw_only=True):
    """An attempt failed as its policy said that it may; the next one is due at `retry_at` (seconds since the epoch)."""

    call: str
    attempt: int
    error: str
    message: str
    retry_at: float


class AttemptBegan(Entry, frozen=True, kw_only=True):
    """A further attempt at a call; written before it runs."""

    call: str
    attempt: int


class TimerSet(Entry, frozen=True, kw_only=True):
    """A scope sleeps until `due` (seconds since the epoch), which may lie beyond this process."""

    call: str
    scope: str
    due: float
    seconds: float | None = None


class TimerFired(Entry, frozen=True, kw_only=True):
    """The time has come."""

    call: str


class EventAwaited(Entry, frozen=True, kw_only=True):
    """A scope waits for a signal of this name, until `due` where that is set (seconds since the epoch)."""

    call: str
    scope: str
    event: str
    timeout_s: float | None = None
    due: float | None = None


class EventSignalled(Entry, frozen=True, kw_only=True):
    """Somebody outside says that something has happened. The one entry that others than the runner write."""

    event: str
    payload: dict[str, Any]


class EventReceived(Entry, frozen=True, kw_only=True):
    """The signal of this record id is what the call has waited for."""

    call: str
    signal: str


class VersionMarked(Entry, frozen=True, kw_only=True):
    """The run passed this place of its code for the first time, and goes by this version of it from now on."""

    name: str
    version: int


RUN_KINDS: tuple[type[Entry], ...] = (
    RunStarted,
    PolicyCalled,
    PolicyReturned,
    AttemptFailed,
    AttemptBegan,
    TimerSet,
    TimerFired,
    EventAwaited,
    EventSignalled,
    EventReceived,
    VersionMarked,
)


def run_registry() -> EntryRegistry:
    """What to open a journal of runs with: `await store.open("runs", run_registry())`."""
    return EntryRegistry(RUN_KINDS)
