"""The way from code on its thread to gates on the event loop, and back."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Mapping
from typing import Any, NamedTuple

from branches.agents.medium import CodeOutcome, GateReply
from leaves.mediums.quickjs.images import Image, Mirrored


class Request(NamedTuple):
    """A gate call of code that waits for its reply."""

    gate: str
    arguments: Mapping[str, Any]


class Ended(NamedTuple):
    """A turn is over: what came of it or what it failed with, and the guest and its image if they can be kept."""

    outcome: CodeOutcome | BaseException
    warm: Mirrored | None
    image: Image | None


class Crossing:
    """One turn's. The thread waits in `ask`; the loop takes what comes out of `next`, and answers a request."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._out: asyncio.Queue[Request | Ended] = asyncio.Queue()
        self._back: queue.SimpleQueue[GateReply | None] = queue.SimpleQueue()

    def ask(self, request: Request) -> GateReply | None:
        """On the thread: wait for a reply. None: the code must stop."""
        self._post(request)
        return self._back.get()

    def end(self, ended: Ended) -> None:
        """On the thread: the turn is over."""
        self._post(ended)

    async def next(self) -> Request | Ended:
        """On the loop: the next thing that happens."""
        return await self._out.get()

    def answer(self, reply: GateReply | None) -> None:
        """On the loop: the reply to the request, or None to stop the code."""
        self._back.put(reply)

    def _post(self, event: Request | Ended) -> None:
        try:
            self._loop.call_soon_threadsafe(self._out.put_nowait, event)
        except RuntimeError:  # the loop is closed: nobody waits for this turn any more
            self._back.put(None)
