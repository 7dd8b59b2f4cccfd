"""One turn of Python in a worker: what it asks for, step by step, until it ends."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from branches.agents.medium import CodeError, CodeOutcome, Finished, GateError, GateReply, Host, Limits, Seed
from leaves.mediums.asking import ask
from leaves.mediums.monty.clock import Clock
from leaves.mediums.monty.gates import missing, raised
from leaves.mediums.monty.values import shown, to_json
from leaves.mediums.monty.workers import Workers, unlimited
from leaves.mediums.names import CodeGate, bind
from leaves.mediums.outcomes import Outcomes
from leaves.mediums.printed import clean

if TYPE_CHECKING:
    from pydantic_monty import AsyncFunctionSnapshot, AsyncMontySession, AsyncSnapshot, MontyRuntimeError

_PARK_S = 0.02
"""A gate that takes longer than this gives the worker to others meanwhile."""
_ROOM = 16


class Turn:
    """Drives the engine from one question to the next. `session` is None while a gate takes its time."""

    def __init__(self, workers: Workers, gates: Mapping[str, CodeGate], limits: Limits, host: Host, seed: Seed) -> None:
        self._workers, self._gates, self._limits, self._host = workers, gates, limits, host
        self._clock = Clock(seed)
        self._wall_end = time.monotonic() + limits.wall_s
        self._computed = 0.0
        self._parked: bytes | None = None
        self.session: AsyncMontySession | None = None
        self.outcomes = Outcomes(limits)

    def __repr__(self) -> str:
        return f"<Turn computed={self._computed:.3f}s{' parked' if self._parked else ''} {self.outcomes!r}>"

    async def run(
        self, session: AsyncMontySession, code: str, names: dict[str, Any]
    ) -> tuple[CodeOutcome, bytes | None]:
        """The outcome, and what the variables are now: None if they cannot be kept."""
        from pydantic_monty import MontyComplete, MontyCrashedError, MontyError, MontyRuntimeError, MontySyntaxError

        self.session = session
        try:
            step = await self._compute(session.feed_start(code, inputs=names, print_callback=self._print))
            while not isinstance(step, MontyComplete):
                halted, step = await self._answer(step)
                if halted is not None:
                    return halted
                if self._computed > self._limits.cpu_s:
                    return self.outcomes.too_slow(restored=True), None
            return await self._kept(self._completed(step.output))
        except MontySyntaxError as error:
            frames = error.traceback()
            where = f"line {frames[-1].line}, column {frames[-1].column}" if frames else None
            return await self._kept(self.outcomes.raised(CodeError("SyntaxError", clean(str(error)), where)))
        except MontyRuntimeError as error:
            outcome = self._failed(error)
            return (outcome, None) if outcome.restored else await self._kept(outcome)
        except MontyCrashedError as error:
            if error.timed_out:
                return self.outcomes.too_slow(restored=True), None
            return self.outcomes.crashed("SystemError", "the engine failed at this code"), None
        except MontyError as error:
            return self.outcomes.crashed("SystemError", clean(str(error))), None

    # ---- how it ends

    def _completed(self, value: object) -> CodeOutcome:
        if value is None:
            return self.outcomes.completed()
        try:
            return self.outcomes.completed(to_json(value))
        except TypeError:
            return self.outcomes.completed(shown(value), as_text=True)

    def _failed(self, error: MontyRuntimeError) -> CodeOutcome:
        name, _, message = clean(str(error)).partition(": ")
        frames = error.traceback()
        if name == "MemoryError":
            return self.outcomes.out_of_memory()
        if name == "TimeoutError" and not frames:  # the engine's own limit: nothing in the code raised it
            return self.outcomes.too_slow(restored=True)
        where = f"line {frames[-1].line}, column {frames[-1].column}" if frames else None
        return self.outcomes.raised(CodeError(name, message, where))

    async def _kept(self, outcome: CodeOutcome) -> tuple[CodeOutcome, bytes | None]:
        from pydantic_monty import MontyError

        assert self.session is not None, "a turn that ended by itself has its worker"
        try:
            state = await self.session.dump()
            if len(state) > self._limits.memory_bytes // _ROOM:  # a turn that leaves no room for a next cannot be kept
                await self.session.feed_run(f"len(' ' * {self._limits.memory_bytes // _ROOM})")
        except MontyError:
            return self.outcomes.out_of_memory(), None
        return outcome, state

    async def _halt(self, step: AsyncFunctionSnapshot, outcome: CodeOutcome) -> tuple[CodeOutcome, bytes | None]:
        """Stop at this call, uncatchably: a session that may not be suspended at all drops the rest of the code."""
        from pydantic_monty import MontyError, MontyRuntimeError

        state = self._parked or step.dump()
        await self._release()
        self.session = await self._workers.take(self._limits, suspensions=0)
        with contextlib.suppress(MontyRuntimeError):
            await self.session.load_snapshot(state)
        try:
            return outcome, unlimited(await self.session.dump())
        except MontyError:
            return self.outcomes.crashed("SystemError", "the engine failed at the end of this code"), None
        finally:
            await self._release()

    # ---- what it asks for

    async def _answer(self, step: Any) -> tuple[tuple[CodeOutcome, bytes | None] | None, Any]:
        from pydantic_monty import AsyncFunctionSnapshot, AsyncNameLookupSnapshot

        if isinstance(step, AsyncNameLookupSnapshot):
            return None, await self._compute(step.resume())
        if not isinstance(step, AsyncFunctionSnapshot):  # every gate is answered before it is waited for
            raise RuntimeError(f"the engine asks for what was never promised: {step!r}")
        if step.is_os_function:
            known = self._clock.answer(step.function_name, step.args)
            return None, await self._compute(step.resume_not_handled() if known is None else step.resume(known))  # pyright: ignore
        gate = None if step.object_id is not None else self._gates.get(step.function_name)
        if gate is None:
            return None, await self._compute(step.resume(missing(step.function_name, step.object_id is not None)))  # pyright: ignore
        try:
            arguments = self._arguments(gate, step)
        except (TypeError, ValueError) as error:
            name = "TypeError" if isinstance(error, TypeError) else "ValueError"
            return None, await self._compute(step.resume({"exc_type": name, "message": clean(str(error))}))
        reply = await self._ask(step, gate, arguments)
        if reply is None:
            return await self._halt(step, self.outcomes.too_long(restored=False)), None
        if isinstance(reply, Finished):
            return await self._halt(step, self.outcomes.finished()), None
        self._clock.advance(reply.now)
        answer = raised(reply) if isinstance(reply, GateError) else {"return_value": reply.value}
        return None, await self._resume(step, answer)

    def _arguments(self, gate: CodeGate, step: AsyncFunctionSnapshot) -> dict[str, Any]:
        positional = [to_json(value) for value in step.args]
        arguments = bind(gate, positional, {name: to_json(value) for name, value in step.kwargs.items()})
        length, most = len(msgspec.json.encode(arguments)), self._limits.gate_chars
        if length > most:
            raise ValueError(f"{gate.name} got {length} characters of arguments; {most} fit")
        return arguments

    async def _ask(self, step: AsyncFunctionSnapshot, gate: CodeGate, arguments: dict[str, Any]) -> GateReply | None:
        parking: list[asyncio.Task[None]] = []
        alarm = asyncio.get_running_loop().call_later(
            _PARK_S, lambda: parking.append(asyncio.ensure_future(self._park(step)))
        )
        try:
            reply = await ask(self._host, gate.definition.name, arguments, self._wall_left)
        finally:
            alarm.cancel()
            if parking:
                await asyncio.wait(parking)
        for parked in parking:
            parked.result()
        return reply

    async def _park(self, step: AsyncFunctionSnapshot) -> None:
        """Give the worker to others while the gate takes its time."""
        self._parked = step.dump()
        await self._release()

    async def _resume(self, step: AsyncFunctionSnapshot, answer: Any) -> AsyncSnapshot:
        if self._parked is not None:
            state, self._parked = self._parked, None
            self.session = await self._workers.take(self._limits)
            restored: Any = await self.session.load_snapshot(state, print_callback=self._print)
            step = restored
        if not step.allow_eager_await:
            return await self._compute(step.resume(answer))
        waiting: Any = await self._compute(step.resume({"future": ...}))  # `await gate()`: what is waited for is there
        return await self._compute(waiting.resume({waiting.pending_call_ids[0]: answer}))

    # ----

    @property
    def _wall_left(self) -> float:
        return max(0.0, self._wall_end - time.monotonic())

    async def _compute(self, work: Awaitable[Any]) -> Any:
        began = time.monotonic()
        try:
            return await work
        finally:
            self._computed += time.monotonic() - began

    async def _release(self) -> None:
        session, self.session = self.session, None
        if session is not None:
            await self._workers.give(session)

    def _print(self, _stream: str, text: str) -> None:
        self.outcomes.printed.add(text)
