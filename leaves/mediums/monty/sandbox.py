"""One entity's Python: its variables, and turn after turn of code."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from branches.agents.medium import CodeOutcome, Host, Limits, Seed
from leaves.mediums.monty.gates import surface
from leaves.mediums.monty.turn import Turn
from leaves.mediums.monty.workers import Workers
from leaves.mediums.names import CodeGate
from leaves.mediums.outcomes import Outcomes
from leaves.mediums.sealed import seal

if TYPE_CHECKING:
    from pydantic_monty import AsyncMontySession


class PythonSandbox:
    """Between turns it is a dump; the worker that it came from is kept as long as it is among the last used."""

    def __init__(
        self, workers: Workers, gates: Sequence[CodeGate], limits: Limits, engine: bytes, state: bytes | None
    ) -> None:
        self._workers, self._limits, self._engine, self._state = workers, limits, engine, state
        self._code_gates = gates
        self._gates = {gate.name: gate for gate in gates}
        self._session: AsyncMontySession | None = None
        self._busy = self._closed = False

    def __repr__(self) -> str:
        state = "closed" if self._closed else "running" if self._busy else "warm" if self._session else "cold"
        return f"<PythonSandbox {state} bytes={len(self._state or b'')}>"

    @property
    def memory_bytes(self) -> int:
        """What it holds in this process; a worker that it keeps is beside that."""
        return len(self._state or b"")

    async def run(self, code: str, host: Host, seed: Seed) -> CodeOutcome:
        """See `Sandbox.run`."""
        if self._busy or self._closed:
            raise RuntimeError("a sandbox that is closed or at work runs no second turn")
        if len(code) > self._limits.code_chars:
            return Outcomes(self._limits).too_much_code(len(code))
        self._busy = True
        turn = Turn(self._workers, self._gates, self._limits, host, seed)
        try:
            session = await self._begin()
            outcome, state = await turn.run(session, code, surface(self._code_gates))
            if state is not None:
                self._state = state
                if turn.session is not None and not self._closed:
                    self._session, turn.session = turn.session, None
                    await self._workers.keep(self)
            return outcome
        finally:
            self._busy = False
            if turn.session is not None:
                await self._workers.give(turn.session)

    async def snapshot(self) -> bytes | None:
        """See `Sandbox.snapshot`."""
        state = self._state
        return await asyncio.to_thread(lambda: seal(self._engine, b"" if state is None else state))

    async def close(self) -> None:
        """See `Sandbox.close`."""
        self._closed = True
        await self.cool()

    async def cool(self) -> None:
        """Give the worker back; the dump says all."""
        session, self._session = self._session, None
        if session is not None:
            self._workers.forget(self)
            await self._workers.give(session)

    async def _begin(self) -> AsyncMontySession:
        session, self._session = self._session, None
        if session is not None:
            self._workers.forget(self)
            return session
        session = await self._workers.take(self._limits)
        if self._state is not None:
            try:
                await session.load_session(self._state)
            except BaseException:
                await self._workers.give(session)
                raise
        return session
