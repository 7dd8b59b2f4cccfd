"""Doing: an effect runs until an attempt gives its outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from journals import InvalidEntry
from policies._clock import Clock, sleep_until
from policies._codec import Call, Failure
from policies._context import EffectContext
from policies._ledger import Ledger
from policies._recorder import Recorder
from policies._registry import Policy, PolicyInfo
from policies._slot import Slot, short
from policies._step import Step, error_result


class Doing:
    """What a run does in the world. Each doing ends with an outcome in the journal."""

    def __init__(self, recorder: Recorder, clock: Clock) -> None:
        self._recorder, self._clock = recorder, clock

    def __repr__(self) -> str:
        return f"<Doing of {self._recorder!r}>"

    async def effect(self, call: Call, policy: PolicyInfo, function: Policy, slot: Slot, seed: Ledger) -> None:
        """Run an effect until an attempt gives an outcome, and record it."""
        retry = policy.retry
        expected = () if retry is None else retry.on
        while True:
            try:
                steps = await function(call.action, EffectContext(call.id, slot.attempts, slot.time, seed))
            except expected as error:
                assert retry is not None
                refuse_cancelled()
                message = readable(str(error))
                if slot.attempts < retry.attempts:
                    retry_at = round(self._clock.now() + retry.pause(call.id, slot.attempts, error), 6)
                    await self._recorder.write_failure(call, Failure(type(error).__name__, message, retry_at))
                    await sleep_until(self._clock, retry_at)
                    await self._recorder.write_call(call, slot.attempts + 1)
                    continue
                tried = f"{slot.attempts} attempts" if slot.attempts > 1 else "one attempt"
                steps = [error_result(policy.name, "failed", f"{type(error).__name__}: {message} (after {tried})")]
            refuse_cancelled()
            try:
                await self._recorder.write_outcome(call, checked(policy.name, steps))
            except InvalidEntry as error:  # it has happened, only its words cannot be kept
                steps = [error_result(policy.name, "bad_result", f"what it gave cannot be recorded: {error}")]
                await self._recorder.write_outcome(call, steps)
            return


def checked(policy: str, steps: Sequence[Step]) -> Sequence[Step]:
    """What a policy gave, if that is steps. Raises `TypeError` if it is not."""
    if isinstance(steps, list | tuple) and all(isinstance(step, Step) for step in steps):  # pyright: ignore
        return steps
    raise TypeError(f"policy {policy!r} gave {short(steps)}; a policy gives a list of steps")


def readable(text: str) -> str:
    """An exception's text as valid Unicode: it goes into a journal."""
    return text.encode("utf-8", "replace").decode()


def refuse_cancelled() -> None:
    """Cancellation is never a result, whatever a policy makes of it."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
