"""The recorder: one run's calls and outcomes, as they stand in its journal."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TypeVar, cast

from journals import Claim, Draft, Entry, Journal, Record, derive_id
from policies._codec import (
    Answered,
    Attempted,
    Call,
    Called,
    Codec,
    DurableCodec,
    Failed,
    Failure,
    Marked,
    Outcome,
    RetryCodec,
    Returned,
    Signalled,
    Writing,
)
from policies._errors import NotDurable
from policies._order import Order, Tally
from policies._signals import Signals
from policies._slot import CallTime, Slot
from policies._step import Step

T = TypeVar("T", bound=Codec)


class Recorder:
    """Writes a run's calls and outcomes under its claim, and takes in what the journal says about them.

    The run's root call is recorded already: whatever caused the run stands in the journal.

    Feed it through `observe`: first every record of the run that the journal holds, in order; then what its tail
    brings. What it writes itself it observes by itself, except for the faults that it records in place of an answer
    from outside: whether the fault or a late answer came first, only the tail can tell. Without a claim it only reads.
    """

    def __init__(self, run: str, journal: Journal, codec: Codec, *, claim: Claim | None, cause: Record[Entry]) -> None:
        self._journal, self._codec, self._claim, self.cause = journal, codec, claim, cause
        self.run = run
        self.root = Slot(None, cause.time)
        self.signals = Signals()
        self.versions: dict[str, int] = {}
        self._slots: dict[str, Slot] = {run: self.root}
        self._unclaimed: defaultdict[str, dict[str, Slot]] = defaultdict(dict)
        self._orders: dict[str, Order] = {}
        self._tally = Tally()

    def __repr__(self) -> str:
        return f"<Recorder of {self.cause.id} in {self._journal.name}: {len(self._slots)} calls>"

    @property
    def may_write(self) -> bool:
        """Whether this run may go on, or can only be looked at."""
        return self._claim is not None

    @property
    def replaying(self) -> bool:
        """Whether something recorded, anywhere in the run, has not found its caller yet."""
        for order in self._orders.values():
            order.clear()
        return self._tally.left > 0

    def order(self, scope: str) -> Order:
        """The order of a scope, by the id of the call that it serves."""
        order = self._orders.get(scope)
        if order is None:
            order = self._orders[scope] = Order(self.run, self._tally)
        return order

    def forget(self, scope: str) -> None:
        """Nobody will ask for what was recorded inside this call."""
        for id, slot in self._unclaimed.pop(scope, {}).items():
            slot.dropped = True
            self.forget(id)
        order = self._orders.pop(scope, None)
        if order is not None:
            order.close()

    def observe(self, record: Record[Entry]) -> None:
        """Take in a record. Of several outcomes of one call the first counts; an answer to no call is ignored."""
        for said in self._codec.decode(record):
            match said:
                case Called():
                    self._called(said, record.time)
                case Returned():
                    self._returned(said, record.time)
                case Answered():
                    signal = self.signals.taken(said.signal)
                    self._returned(Returned(said.call_id, (signal.step,)), record.time)
                case Attempted():
                    slot = self._slots[said.call_id]
                    slot.attempts, slot.retry_at = max(slot.attempts, said.attempt), None
                case Failed():
                    self._slots[said.call_id].retry_at = said.retry_at
                case Signalled():
                    self.signals.arrived(said)
                case Marked():
                    self.versions.setdefault(said.name, said.version)

    def begin(self, *, again: bool = False) -> None:
        """All that was recorded has been observed; now the policies run.

        What lies inside a finished call will not be asked for, except when everything is to run `again`.
        """
        if again:
            return
        for slot in self._slots.values():
            scope, inside = self._slots.get(slot.scope), [slot]
            while scope is not None and scope.outcome is None and not scope.dropped:
                inside.append(scope)
                scope = self._slots.get(scope.scope)
            if scope is not None:
                for each in inside:
                    each.dropped = True

    def outcome(self, call: str) -> Outcome | None:
        """The recorded outcome of a call, by its id; None while it has none."""
        slot = self._slots.get(call)
        return None if slot is None else slot.outcome

    def is_recorded(self, call: str) -> bool:
        """Whether it is recorded that a call of this id is made."""
        return call in self._slots

    def times(self) -> Iterator[CallTime]:
        """When each call of the run was made and ended; calls inside finished ones too."""
        return (slot.times(id) for id, slot in self._slots.items() if slot is not self.root)

    def abandon(self, scope: str) -> None:
        """Let go of a scope's recorded calls that its policy has not made again: it was left early, by design."""
        self._unclaimed.pop(scope, None)

    def unclaimed(self, scope: str) -> dict[str, Slot]:
        """The recorded calls of a scope that its policy has not made again yet."""
        return self._unclaimed[scope]

    def take(self, call: Call) -> Slot | None:
        """The recorded call of this id, which its caller makes now; None if it was never recorded."""
        slot = self._slots.get(call.id)
        if slot is None or slot.claimed or slot is self.root:
            return None
        del self._unclaimed[slot.scope][call.id]
        return slot

    def is_taken(self, call: Call) -> bool:
        """Whether a call of this id was made already in this process."""
        return call.id in self._slots

    def open(self, call: Call) -> Slot:
        """A slot for a call that is made for the first time."""
        slot = self._slots[call.id] = Slot(call.action, 0.0, call.scope, call.seed)
        return slot

    def follows(self, call: Call) -> bool:
        """Whether the call follows from what is recorded, so that nothing is written of it before its outcome."""
        return self._codec.encode_call(call, 1) is None

    async def write_call(self, call: Call, attempt: int) -> None:
        """Record the call, before anything is done, unless it follows from what is recorded already.

        Raises what `Journal.append` raises.
        """
        writing = self._codec.encode_call(call, attempt)
        slot = self._slots[call.id]
        slot.attempts, slot.retry_at = attempt, None
        slot.due = call.due if slot.due is None else slot.due
        if writing is None:
            return
        id = call.id if attempt == 1 else derive_id(call.id, "attempt", attempt)
        record = (await self._append([(id, writing)]))[0]
        slot.time = slot.time or round(record.time, 6)

    async def write_refused(self, call: Call, steps: Sequence[Step]) -> Outcome:
        """Record a call together with its outcome: it was never made. Raises what `Journal.append_all` raises."""
        writing, outcome = self._codec.encode_call(call, 1), self._outcome(call, steps, "outcome")
        written = await self._append(outcome if writing is None else [(call.id, writing), *outcome])
        slot = self._slots[call.id]
        slot.attempts, slot.time = 1, round(written[0].time, 6)
        return self._observed(call, written)

    async def write_outcome(self, call: Call, steps: Sequence[Step]) -> Outcome:
        """Record what the call came to; see `Writing.ends`. Raises what `Journal.append` raises."""
        writings = self._outcome(call, steps, "outcome")
        for _, writing in writings:
            if writing.makes is not None:
                self._open_unclaimed(writing.makes)
        writing = self._append(writings)
        if not any(each.ends for _, each in writings):
            return self._observed(call, await writing)
        task = asyncio.ensure_future(writing)
        try:
            return self._observed(call, await asyncio.shield(task))
        except asyncio.CancelledError:
            await asyncio.wait([task])
            self._observed(call, task.result())
            raise

    async def write_missing(self, call: Call, steps: Sequence[Step]) -> None:
        """Record a fault where no answer came; it counts if the tail brings it before an answer."""
        await self._append(self._outcome(call, steps, "missing"))

    async def write_failure(self, call: Call, failure: Failure) -> None:
        """Record that the attempt failed and will be repeated. Raises what `Journal.append` raises, `NotDurable`."""
        slot = self._slots[call.id]
        writing = self.retrying("tries again").encode_failure(call, slot.attempts, failure)
        await self._append([(derive_id(call.id, "failure", slot.attempts), writing)])
        slot.retry_at = failure.retry_at

    async def write_answer(self, call: Call, signal: Signalled) -> Outcome:
        """Record that this signal answers the call. Raises what `Journal.append` raises."""
        writing = self.durable("waits for an event").encode_answer(call, signal.id)
        return self._observed(call, await self._append([(derive_id(call.id, "outcome", 0), writing)]))

    async def write_version(self, name: str, version: int) -> None:
        """Record a version marker. Raises what `Journal.append` raises, `NotDurable`."""
        self.versions[name] = version
        writing = self.durable("marks a version").encode_marker(name, version)
        await self._append([(derive_id(self.run, "version", name), writing)])

    def retrying(self, does: str) -> RetryCodec:
        """The codec, if it can write attempts that failed; else raises `NotDurable`."""
        return self._able(RetryCodec, does)

    def durable(self, does: str) -> DurableCodec:
        """The codec, if it can write timers, waiting and version markers too; else raises `NotDurable`."""
        return self._able(DurableCodec, does)

    def _able(self, wanted: type[T], does: str) -> T:
        if _is_able(type(self._codec), wanted):
            return cast("T", self._codec)
        raise NotDurable(does, type(self._codec).__name__, wanted.__name__)

    def fail(self, error: BaseException) -> None:
        """Nothing more will be observed: whoever waits raises this."""
        for order in self._orders.values():
            order.fail(error)
        self.signals.fail(error)
        for slot in self._slots.values():
            slot.fail(error)

    def _called(self, said: Called, time: float) -> None:
        slot = self._slots.get(said.call_id)
        if slot is None:
            slot = self._open_unclaimed(said)
            self.order(said.scope).called(slot)
        slot.time = slot.time or round(time, 6)
        slot.attempts = max(slot.attempts, said.attempt)

    def _open_unclaimed(self, said: Called) -> Slot:
        slot = Slot(said.action, 0.0, said.scope, said.seed)
        slot.due = said.due
        self._slots[said.call_id] = self._unclaimed[said.scope][said.call_id] = slot
        return slot

    def _returned(self, said: Returned, time: float) -> None:
        slot = self._slots.get(said.call_id)
        if slot is not None and slot.outcome is None:
            slot.outcome = Outcome(_with_ids(said), round(time, 6))
            if slot is not self.root:
                self.order(slot.scope).returned(slot)
            slot.wake()

    def _observed(self, call: Call, records: Sequence[Record[Entry]]) -> Outcome:
        for record in records:
            self.observe(record)
        outcome = self._slots[call.id].outcome
        assert outcome is not None, f"the codec cannot read the outcome of {call} that it wrote"
        return outcome

    def _outcome(self, call: Call, steps: Sequence[Step], what: str) -> list[tuple[str, Writing]]:
        writings = self._codec.encode_outcome(call, steps)
        return [(derive_id(call.id, what, n), writing) for n, writing in enumerate(writings)]

    async def _append(self, writings: Sequence[tuple[str, Writing]]) -> list[Record[Entry]]:
        cause = self.cause
        assert self._claim is not None, "a run that is only looked at writes nothing"
        if len(writings) == 1:
            ((id, writing),) = writings
            appended = await self._journal.append(
                writing.entry,
                session=cause.session,
                id=id,
                expect=self._claim,
                cause=cause,
                correlation_id=writing.correlation_id,
            )
            return [appended.record]
        drafts = [
            Draft(
                entry=writing.entry,
                session=cause.session,
                id=id,
                correlation_id=writing.correlation_id or cause.correlation_id,
                causation_id=cause.id,
                origin=cause.origin,
            )
            for id, writing in writings
        ]
        return [appended.record for appended in await self._journal.append_all(drafts, expect=self._claim)]


def _with_ids(said: Returned) -> tuple[Step, ...]:
    return tuple(
        Step(derive_id(said.call_id, "step", n), step.actor, step.type, step.payload)
        for n, step in enumerate(said.steps)
    )


@cache
def _is_able(codec: type[Codec], wanted: type[Codec]) -> bool:
    """Asking a protocol takes longer than writing a record, so each class of codec is asked once."""
    return issubclass(codec, wanted)
