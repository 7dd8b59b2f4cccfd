"""The recorder: a run's calls and outcomes, written as they come."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache
from typing import TypeVar, cast

from journals import Claim, Draft, Entry, Journal, Record, derive_id
from policies._codec import Call, Codec, DurableCodec, Failure, Outcome, RetryCodec, Signalled, Writing
from policies._errors import NotDurable
from policies._recorded import Recorded
from policies._step import Step

T = TypeVar("T", bound=Codec)


class Recorder(Recorded):
    """Writes a run's calls and outcomes under its claim, beside what the journal says about them.

    What it writes itself it observes by itself, except for the faults that it records in place of an answer from
    outside: whether the fault or a late answer came first, only the tail can tell. Without a claim it only reads.
    """

    def __init__(self, run: str, journal: Journal, codec: Codec, *, claim: Claim | None, cause: Record[Entry]) -> None:
        super().__init__(run, codec, cause)
        self._journal, self._claim = journal, claim

    @property
    def may_write(self) -> bool:
        """Whether this run may go on, or can only be looked at."""
        return self._claim is not None

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


@cache
def _is_able(codec: type[Codec], wanted: type[Codec]) -> bool:
    """Asking a protocol takes longer than writing a record, so each class of codec is asked once."""
    return issubclass(codec, wanted)
