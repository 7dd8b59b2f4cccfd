"""Waiting: for time to pass, for something that happens outside, for the answer of somebody who serves an effect."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from policies._clock import Clock, sleep_until
from policies._codec import Call
from policies._context import EVENT, SLEEP
from policies._recorder import Recorder
from policies._registry import PolicyInfo
from policies._signals import Bell
from policies._slot import Slot
from policies._step import action_result, error_result


class Waiting:
    """What a run waits for. Each waiting ends with an outcome in the journal.

    `listen` is called before the run waits for something from outside, `catch_up` before it decides that nothing came.
    """

    def __init__(
        self,
        recorder: Recorder,
        clock: Clock,
        listen: Callable[[], object] | None,
        catch_up: Callable[[], Awaitable[None]] | None,
    ) -> None:
        self._recorder, self._clock, self._listen, self._catch_up = recorder, clock, listen, catch_up

    def __repr__(self) -> str:
        return f"<Waiting of {self._recorder!r}>"

    async def sleep(self, call: Call, slot: Slot) -> None:
        """Until the recorded time."""
        assert slot.due is not None
        await sleep_until(self._clock, slot.due)
        await self._recorder.write_outcome(call, [action_result(SLEEP, {})])

    async def wait_for_event(self, call: Call, slot: Slot) -> None:
        """Wait for a signal; one that stands in the journal before the end of the waiting does always counts."""
        signals, payload = self._recorder.signals, call.action.payload
        name: str = payload["event"]
        signal = signals.take(name)
        if signal is None and (slot.due is None or slot.due > self._clock.now()):
            if self._listen is not None:
                self._listen()
            bell: Bell = asyncio.get_running_loop().create_future()
            alarm = None
            if slot.due is not None:
                alarm = self._clock.call_at(slot.due, lambda: bell.done() or bell.set_result(None))
            try:
                signal = await signals.wait(name, bell)
            finally:
                if alarm is not None:
                    alarm.cancel()
        if signal is None and self._catch_up is not None:
            await self._catch_up()
            signal = signals.take(name)
        if signal is not None:
            await self._recorder.write_answer(call, signal)
        else:
            message = f"nobody signalled {name!r} within {payload['timeout_s']:g} s"
            await self._recorder.write_outcome(call, [error_result(EVENT, "timeout", message)])

    async def wait_for_answer(self, call: Call, policy: PolicyInfo, slot: Slot) -> None:
        """Wait for the answer from outside; after the deadline a fault is recorded, and the first of them counts."""
        if slot.outcome is None and policy.timeout_s is not None:
            alarm = self._clock.call_at(slot.time + policy.timeout_s, slot.wake)
            try:
                await slot.changed()
            finally:
                alarm.cancel()
            if slot.outcome is None:
                message = f"no answer within {policy.timeout_s:g} s; it may still happen"
                await self._recorder.write_missing(call, [error_result(policy.name, "timeout", message)])
        while slot.outcome is None:
            await slot.changed()
