"""What is recorded of one run: its calls and outcomes, and which of them its policies have asked for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from journals import Entry, Record, derive_id
from policies._codec import Answered, Attempted, Call, Called, Codec, Failed, Marked, Outcome, Returned, Signalled
from policies._order import Order, Tally
from policies._signals import Signals
from policies._slot import CallTime, Slot
from policies._step import Step


class Recorded:
    """The calls of a run as they stand in its journal, each of which waits for its caller.

    Feed it through `observe`: first every record of the run that the journal holds, in order; then what its tail
    brings. The run's root call is recorded already: whatever caused the run stands in the journal.
    """

    def __init__(self, run: str, codec: Codec, cause: Record[Entry]) -> None:
        self.run, self.cause = run, cause
        self.root = Slot(None, cause.time)
        self.signals = Signals()
        self.versions: dict[str, int] = {}
        self._codec = codec
        self._slots: dict[str, Slot] = {run: self.root}
        self._unclaimed: defaultdict[str, dict[str, Slot]] = defaultdict(dict)
        self._orders: dict[str, Order] = {}
        self._tally = Tally()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.cause.id} in {self.cause.journal}: {len(self._slots)} calls>"

    @property
    def replaying(self) -> bool:
        """Whether something recorded, anywhere in the run, has not found its caller yet."""
        for order in self._orders.values():
            order.clear()
        return self._tally.left > 0

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
        """Whether a call of this id was made: it is recorded, or begun in this process."""
        return call in self._slots

    def times(self) -> Iterator[CallTime]:
        """When each call of the run was made and ended; calls inside finished ones too."""
        return (slot.times(id) for id, slot in self._slots.items() if slot is not self.root)

    def take(self, call: Call) -> Slot | None:
        """The recorded call of this id, which its caller makes now; None if it was never recorded."""
        slot = self._slots.get(call.id)
        if slot is None or slot.claimed or slot is self.root:
            return None
        del self._unclaimed[slot.scope][call.id]
        return slot

    def open(self, call: Call) -> Slot:
        """A slot for a call that is made for the first time."""
        slot = self._slots[call.id] = Slot(call.action, 0.0, call.scope, call.seed)
        return slot

    def unclaimed(self, scope: str) -> dict[str, Slot]:
        """The recorded calls of a scope that its policy has not made again yet."""
        return self._unclaimed[scope]

    def abandon(self, scope: str) -> None:
        """Let go of a scope's recorded calls that its policy has not made again: it was left early, by design."""
        self._unclaimed.pop(scope, None)

    def forget(self, scope: str) -> None:
        """Nobody will ask for what was recorded inside this call."""
        for id, slot in self._unclaimed.pop(scope, {}).items():
            slot.dropped = True
            self.forget(id)
        order = self._orders.pop(scope, None)
        if order is not None:
            order.close()

    def order(self, scope: str) -> Order:
        """The order of a scope, by the id of the call that it serves."""
        order = self._orders.get(scope)
        if order is None:
            order = self._orders[scope] = Order(self.run, self._tally)
        return order

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


def _with_ids(said: Returned) -> tuple[Step, ...]:
    return tuple(
        Step(derive_id(said.call_id, "step", n), step.actor, step.type, step.payload)
        for n, step in enumerate(said.steps)
    )
