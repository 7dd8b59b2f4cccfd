"""The worker processes that run Python, shared by all sandboxes: few, and never held while nothing is computed."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Protocol

from branches.agents.medium import Limits

if TYPE_CHECKING:
    from pydantic_monty import AsyncMonty, AsyncMontySession

_CHECKOUT_S = 120.0
_SUSPENSIONS = 10_000_000
_RECURSION = 1000
_GRACE_S = 1.0
# A dump is CBOR: a text key of 15 characters, an unsigned number (of one byte, or of four behind 0x1a), the next key.
_NO_SUSPENSION = b"omax_suspensions\x00omax_total_sleep"
_SUSPENSION = b"omax_suspensions\x1a" + _SUSPENSIONS.to_bytes(4, "big") + b"omax_total_sleep"


class Warm(Protocol):
    """Somebody who keeps a worker although it could do without."""

    async def cool(self) -> None:
        """Give the worker back."""
        ...


class Workers:
    """At most `most` worker processes, and of them at most half kept by sandboxes between turns.

    They start when they are first needed, and end when none was needed for `idle_s` seconds.
    """

    def __init__(self, most: int, idle_s: float) -> None:
        self._most, self._idle_s = most, idle_s
        self._free = asyncio.Semaphore(most)
        self._warm: OrderedDict[Warm, None] = OrderedDict()
        self._pool: AsyncMonty | None = None
        self._opening = asyncio.Lock()
        self._held = 0
        self._idle: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None
        self.asleep = asyncio.Event()
        """Set while no worker process runs."""
        self.asleep.set()

    def __repr__(self) -> str:
        return f"<Workers held={self._held} warm={len(self._warm)} most={self._most}>"

    async def take(self, limits: Limits, *, suspensions: int = _SUSPENSIONS) -> AsyncMontySession:
        """A session of its own; whoever kept a worker longest gives it up if there is no other."""
        if self._free.locked() and self._warm:
            await self._warm.popitem(last=False)[0].cool()
        await self._free.acquire()
        self._held += 1
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        try:
            session = (await self._started()).checkout(
                limits={
                    "max_feed_duration_secs": limits.cpu_s,
                    "max_memory": limits.memory_bytes,
                    "max_suspensions": suspensions,
                    "max_recursion_depth": _RECURSION,
                },
                os_policy={"datetime": "call_host", "random_start": "call_host", "sleep": "call_host"},
            )
            await session.__aenter__()
        except BaseException:
            self._returned()
            raise
        return session

    async def give(self, session: AsyncMontySession) -> None:
        """Give a session back, whatever state it is in."""
        try:
            await session.__aexit__(None, None, None)
        finally:
            self._returned()

    async def keep(self, sandbox: Warm) -> None:
        """This sandbox keeps its worker; of too many, whoever used one longest ago gives it back."""
        self._warm[sandbox] = None
        self._warm.move_to_end(sandbox)
        if len(self._warm) > self._most // 2:
            await self._warm.popitem(last=False)[0].cool()
        self._watch()

    def forget(self, sandbox: Warm) -> None:
        """This sandbox keeps its worker no more."""
        self._warm.pop(sandbox, None)

    async def close(self) -> None:
        """End all workers."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        while self._warm:
            await self._warm.popitem(last=False)[0].cool()
        async with self._opening:
            await self._end()

    async def _started(self) -> AsyncMonty:
        async with self._opening:
            if self._pool is None:
                from pydantic_monty import AsyncMonty

                pool = AsyncMonty(
                    min_processes=1,
                    max_processes=self._most,
                    checkout_timeout=_CHECKOUT_S,
                    feed_duration_limit_grace=_GRACE_S,
                )
                await pool.__aenter__()
                self._pool = pool
                self.asleep.clear()
            return self._pool

    def _returned(self) -> None:
        self._held -= 1
        self._free.release()
        self._watch()

    def _watch(self) -> None:
        """From when on nothing is computed, the workers have only so long to live."""
        if self._held == len(self._warm) and self._pool is not None:
            if self._idle is not None:
                self._idle.cancel()
            self._idle = asyncio.get_running_loop().call_later(self._idle_s, self._rest)

    def _rest(self) -> None:
        self._idle = None
        if self._held == len(self._warm):
            self._closing = asyncio.ensure_future(self._sleep())

    async def _sleep(self) -> None:
        while self._warm:
            await self._warm.popitem(last=False)[0].cool()
        async with self._opening:
            if not self._held:  # whoever takes one from now on waits here, and starts the workers anew
                await self._end()

    async def _end(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.__aexit__(None, None, None)
            self.asleep.set()


def unlimited(state: bytes) -> bytes:
    """The dump of a session that may not be suspended at all, as that of one that may: a dump carries its limits."""
    at = state.rfind(_NO_SUSPENSION)
    if at < 0:
        raise RuntimeError("the engine's dumps are not what they were")
    return state[:at] + _SUSPENSION + state[at + len(_NO_SUSPENSION) :]
