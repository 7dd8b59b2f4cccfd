"""What stands between the engine and a journal: calls and outcomes as entries of the branch, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from journals import Entry, Record
from policies._action import Action
from policies._step import Step


class Call(msgspec.Struct, frozen=True):
    """One call. `id` derives from `scope` (the id of the call inside which it is made) and `key`."""

    id: str
    scope: str
    key: str
    action: Action


class Outcome(msgspec.Struct, frozen=True):
    """What a call came to, and when that was recorded (seconds since the epoch)."""

    steps: tuple[Step, ...]
    time: float


class Called(NamedTuple):
    """A record that says: this call was made. `action` is None where the journal holds only a reference to it."""

    call_id: str
    scope: str
    attempt: int
    action: Action | None


class Writing(NamedTuple):
    """An entry on its way into the journal. Without a correlation id of its own it has that of the run's cause.

    `makes` is the call that an outcome's entry makes as well: it is known before the entry is written, so that its
    answer finds it, however soon it comes.
    """

    entry: Entry
    correlation_id: str | None = None
    makes: Called | None = None


class Returned(NamedTuple):
    """A record that says: this call came to this."""

    call_id: str
    steps: tuple[Step, ...]


class Codec(Protocol):
    """A branch's way to write the engine's calls and outcomes into its journal, so that nothing stands there twice.

    Pure: the same call gives the same entries.
    """

    def encode_call(self, call: Call, attempt: int) -> Writing | None:
        """The entry that is written before the call is made; None for one that follows from what is recorded.

        Only an orchestrator's call can follow: when it is resumed nobody can tell that it had begun.
        """
        ...

    def encode_outcome(self, call: Call, steps: Sequence[Step]) -> Sequence[Writing]:
        """The entries of an outcome, written all or none; `decode` finds the outcome in one of them."""
        ...

    def decode(self, record: Record[Entry]) -> Sequence[Called | Returned]:
        """What the record says about calls: mostly of one, of none, or of a call and the one that ends with it."""
        ...
