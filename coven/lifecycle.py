"""The life of services as entries: what started, what runs, what failed and why."""

from __future__ import annotations

from enum import StrEnum

from covenants.applied import CovenantApplied
from journals import Entry, EntryRegistry

SYSTEM_JOURNAL = "coven"


class State(StrEnum):
    """Where a service stands."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    FAILED = "failed"


class ServiceChanged(Entry, frozen=True, kw_only=True):
    """A service of one host changed its state. `reason` says why it failed; `failures` counts them in the window."""

    service: str
    state: State
    host: str
    reason: str | None = None
    failures: int = 0


def system_registry() -> EntryRegistry:
    """The kinds of the system journal."""
    return EntryRegistry((ServiceChanged, CovenantApplied))
