"""The recorder: one run's calls and outcomes, as they stand in its journal."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence

from journals import Claim, Draft, Entry, Journal, Record, derive_id
from policies._action import Action
from policies._codec import Call, Called, Codec, Outcome, Returned, Writing
from policies._step import Step


class Slot:
    """What is known of one call: its outcome, once there is one, and who waits for it."""

    __slots__ = ("_waiter", "action", "attempts", "outcome", "time")

    def __init__(self, action: Action | None, time: float = 0.0) -> None:
        self.action = action
        self.attempts = 0
        self.time = time
        self.outcome: Outcome | None = None
        self._waiter: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"<Slot attempts={self.attempts} {'open' if self.outcome is None else 'settled'}>"

    def wake(self) -> None:
        """Let whoever waits look again."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def changed(self) -> None:
        """Wait until somebody calls `wake`."""
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter


class Recorder:
    """Writes a run's calls and outcomes under its claim, and takes in what the journal says about them.

    The run's root call is recorded already: whatever caused the run stands in the journal.

    Feed it through `observe`: first every record of the run that the journal holds, in order; then what its tail
    brings. What it writes itself it observes by itself, except for the faults that it records in place of an answer
    from outside: whether the fault or a late answer came first, only the tail can tell.
    """

    def __init__(self, run: str, journal: Journal, codec: Codec, *, claim: Claim, cause: Record[Entry]) -> None:
        self._journal, self._codec, self._claim, self.cause = journal, codec, claim, cause
        self.root = Slot(None, cause.time)
        self._slots: dict[str, Slot] = {run: self.root}
        self._unclaimed: defaultdict[str, dict[str, Slot]] = defaultdict(dict)

    def __repr__(self) -> str:
        return f"<Recorder of {self.cause.id} in {self._journal.name}: {len(self._slots)} calls>"

    def observe(self, record: Record[Entry]) -> None:
        """Take in a record. Of several outcomes of one call the first counts; an answer to no call is ignored."""
        for said in self._codec.decode(record):
            slot = self._slots.get(said.call_id)
            if isinstance(said, Called):
                if slot is None:
                    slot = self._open_unclaimed(said)
                slot.time = slot.time or record.time
                slot.attempts = max(slot.attempts, said.attempt)
            elif slot is not None and slot.outcome is None:
                slot.outcome = Outcome(_with_ids(said), round(record.time, 6))
                slot.wake()

    def outcome(self, call: str) -> Outcome | None:
        """The recorded outcome of a call, by its id; None while it has none."""
        slot = self._slots.get(call)
        return None if slot is None else slot.outcome

    def is_recorded(self, call: str) -> bool:
        """Whether it is recorded that a call of this id is made."""
        return call in self._slots

    def abandon(self, scope: str) -> None:
        """Let go of a scope's recorded calls that its policy has not made again: it was left early, by design."""
        self._unclaimed.pop(scope, None)

    def unclaimed(self, scope: str) -> dict[str, Slot]:
        """The recorded calls of a scope that its policy has not made again yet."""
        return self._unclaimed[scope]

    def take(self, call: Call) -> Slot | None:
        """The recorded call of this id, now claimed by its caller; None if it was never recorded."""
        return self._unclaimed[call.scope].pop(call.id, None)

    def is_taken(self, call: Call) -> bool:
        """Whether a call of this id was made already in this process."""
        return call.id in self._slots and call.id not in self._unclaimed[call.scope]

    def open(self, call: Call) -> Slot:
        """A slot for a call that is made for the first time."""
        slot = self._slots[call.id] = Slot(call.action)
        return slot

    def _open_unclaimed(self, made: Called) -> Slot:
        slot = self._slots[made.call_id] = self._unclaimed[made.scope][made.call_id] = Slot(made.action)
        return slot

    async def write_call(self, call: Call, attempt: int) -> None:
        """Record the call, before anything is done, unless it follows from what is recorded already.

        Raises what `Journal.append` raises.
        """
        writing = self._codec.encode_call(call, attempt)
        slot = self._slots[call.id]
        slot.attempts = attempt
        if writing is None:
            return
        id = call.id if attempt == 1 else derive_id(call.id, "attempt", attempt)
        record = (await self._append([(id, writing)]))[0]
        slot.time = round(record.time, 6)

    async def write_outcome(self, call: Call, steps: Sequence[Step]) -> Outcome:
        """Record what the call came to. Raises what `Journal.append` raises."""
        writings = self._outcome(call, steps, "outcome")
        for _, writing in writings:
            if writing.makes is not None:
                self._open_unclaimed(writing.makes)
        for record in await self._append(writings):
            self.observe(record)
        outcome = self._slots[call.id].outcome
        assert outcome is not None, f"the codec cannot read the outcome of {call} that it wrote"
        return outcome

    async def write_missing(self, call: Call, steps: Sequence[Step]) -> None:
        """Record a fault where no answer came; it counts if the tail brings it before an answer."""
        await self._append(self._outcome(call, steps, "missing"))

    def _outcome(self, call: Call, steps: Sequence[Step], what: str) -> list[tuple[str, Writing]]:
        writings = self._codec.encode_outcome(call, steps)
        return [(derive_id(call.id, what, n), writing) for n, writing in enumerate(writings)]

    async def _append(self, writings: Sequence[tuple[str, Writing]]) -> list[Record[Entry]]:
        cause = self.cause
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
