"""The codec of a journal of runs."""

from __future__ import annotations

from collections.abc import Sequence

from journals import Entry, Lane, Record
from policies._action import Action
from policies._codec import (
    Answered,
    Attempted,
    Call,
    Called,
    Failed,
    Failure,
    Marked,
    Returned,
    Said,
    Signalled,
    Writing,
)
from policies._context import EVENT, SLEEP
from policies._entries import (
    AttemptBegan,
    AttemptFailed,
    EventAwaited,
    EventReceived,
    EventSignalled,
    PolicyCalled,
    PolicyReturned,
    StepData,
    TimerFired,
    TimerSet,
    VersionMarked,
)
from policies._step import Step, action_result


class RunCodec:
    """Writes a run's calls as entries of a journal of runs, and reads them back; see `DurableCodec`.

    What others than a run's owner wrote counts for nothing, except for signals.
    """

    def encode_call(self, call: Call, attempt: int) -> Writing:
        """See `Codec.encode_call`."""
        action = call.action
        if attempt > 1:
            return Writing(AttemptBegan(call=call.id, attempt=attempt))
        if action.policy == SLEEP:
            assert call.due is not None
            seconds = action.payload.get("seconds")
            return Writing(TimerSet(call=call.id, scope=call.scope, due=call.due, seconds=seconds))
        if action.policy == EVENT:
            event, timeout_s = action.payload["event"], action.payload["timeout_s"]
            return Writing(EventAwaited(call=call.id, scope=call.scope, event=event, timeout_s=timeout_s, due=call.due))
        entry = PolicyCalled(
            call=call.id,
            scope=call.scope,
            policy=action.policy,
            payload=dict(action.payload),
            actions=tuple(sorted(action.actions)),
            decorators=call.decorators,
            seed=call.seed,
        )
        return Writing(entry)

    def encode_outcome(self, call: Call, steps: Sequence[Step]) -> Sequence[Writing]:
        """See `Codec.encode_outcome`."""
        if call.action.policy == SLEEP:
            return [Writing(TimerFired(call=call.id))]
        return [Writing(PolicyReturned(call=call.id, steps=tuple(map(StepData.of, steps))))]

    def encode_failure(self, call: Call, attempt: int, failure: Failure) -> Writing:
        """See `RetryCodec.encode_failure`."""
        return Writing(
            AttemptFailed(
                call=call.id,
                attempt=attempt,
                error=failure.error,
                message=failure.message,
                retry_at=failure.retry_at,
            )
        )

    def encode_answer(self, call: Call, signal: str) -> Writing:
        """See `DurableCodec.encode_answer`."""
        return Writing(EventReceived(call=call.id, signal=signal))

    def encode_marker(self, name: str, version: int) -> Writing:
        """See `DurableCodec.encode_marker`."""
        return Writing(VersionMarked(name=name, version=version))

    def decode(self, record: Record[Entry]) -> Sequence[Said]:
        """See `Codec.decode`."""
        entry = record.entry
        if isinstance(entry, EventSignalled):
            return [Signalled(record.id, entry.event, action_result(entry.event, entry.payload))]
        if record.lane is not Lane.OUT:
            return []
        match entry:
            case PolicyCalled():
                action = Action(entry.policy, entry.payload, frozenset(entry.actions))
                return [Called(entry.call, entry.scope, 1, action, entry.seed)]
            case PolicyReturned():
                return [Returned(entry.call, tuple([data.step for data in entry.steps]))]
            case AttemptBegan():
                return [Attempted(entry.call, entry.attempt)]
            case AttemptFailed():
                return [Failed(entry.call, entry.attempt, entry.retry_at)]
            case TimerSet():
                payload = {"until": entry.due} if entry.seconds is None else {"seconds": entry.seconds}
                return [Called(entry.call, entry.scope, 1, Action(SLEEP, payload), due=entry.due)]
            case TimerFired():
                return [Returned(entry.call, (action_result(SLEEP, {}),))]
            case EventAwaited():
                action = Action(EVENT, {"event": entry.event, "timeout_s": entry.timeout_s})
                return [Called(entry.call, entry.scope, 1, action, due=entry.due)]
            case EventReceived():
                return [Answered(entry.call, entry.signal)]
            case VersionMarked():
                return [Marked(entry.name, entry.version)]
            case _:
                return []
