"""What stands between the engine and a journal: calls and outcomes as entries of the branch, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import msgspec

from journals import Entry, Record
from policies._action import Action
from policies._step import Step


class Call(msgspec.Struct, frozen=True):
    """One call. `id` derives from `scope` (the id of the call inside which it is made) and `key`.

    `decorators` are the names of what the call was decorated with, the outermost first. `seed` is the digest of the
    ledger that the called policy begins with, None for an empty one. `due` is when a timer rings or a waiting ends, in
    seconds since the epoch.
    """

    id: str
    scope: str
    key: str
    action: Action
    decorators: tuple[str, ...] = ()
    seed: str | None = None
    due: float | None = None


class Outcome(msgspec.Struct, frozen=True):
    """What a call came to, and when that was recorded (seconds since the epoch)."""

    steps: tuple[Step, ...]
    time: float


class Failure(msgspec.Struct, frozen=True):
    """An attempt that failed: the exception's type and text, and when the next attempt is due."""

    error: str
    message: str
    retry_at: float


class Called(NamedTuple):
    """A record that says: this call was made. `action` is None where the journal holds only a reference to it."""

    call_id: str
    scope: str
    attempt: int
    action: Action | None
    seed: str | None = None
    due: float | None = None


class Writing(NamedTuple):
    """An entry on its way into the journal. Without a correlation id of its own it has that of the run's cause.

    `makes` is the call that an outcome's entry makes as well: it is known before the entry is written, so that its
    answer finds it, however soon it comes. One that `ends` something for good is written to its end once it was begun,
    also when the run is cancelled meanwhile: whoever says how it ended instead must know that it has ended already.
    """

    entry: Entry
    correlation_id: str | None = None
    makes: Called | None = None
    ends: bool = False


class Returned(NamedTuple):
    """A record that says: this call came to this."""

    call_id: str
    steps: tuple[Step, ...]


class Attempted(NamedTuple):
    """A record that says: a further attempt at this call was begun."""

    call_id: str
    attempt: int


class Failed(NamedTuple):
    """A record that says: this attempt failed, and the next one is due then."""

    call_id: str
    attempt: int
    retry_at: float


class Signalled(NamedTuple):
    """A record that says: something happened outside that the run may wait for. `id` is the record's."""

    id: str
    name: str
    step: Step


class Answered(NamedTuple):
    """A record that says: the signal of this id is what this call has waited for."""

    call_id: str
    signal: str


class Marked(NamedTuple):
    """A record that says: the run has passed this version marker, with this version."""

    name: str
    version: int


Said = Called | Returned | Attempted | Failed | Signalled | Answered | Marked


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

    def decode(self, record: Record[Entry]) -> Sequence[Said]:
        """What the record says about calls: mostly of one, of none, or of a call and the one that ends with it."""
        ...


@runtime_checkable
class RetryCodec(Codec, Protocol):
    """A codec for policies that are tried again."""

    def encode_failure(self, call: Call, attempt: int, failure: Failure) -> Writing:
        """The entry of an attempt that failed and will be repeated."""
        ...


@runtime_checkable
class DurableCodec(RetryCodec, Protocol):
    """A codec that can write all that the engine knows: failed attempts, timers, waiting and version markers.

    Its `encode_call` takes the calls of `SLEEP` and `EVENT` too, which have a `due`.
    """

    def encode_answer(self, call: Call, signal: str) -> Writing:
        """The entry that gives a signal, by its id, to the call that has waited for it."""
        ...

    def encode_marker(self, name: str, version: int) -> Writing:
        """The entry of a version marker."""
        ...
