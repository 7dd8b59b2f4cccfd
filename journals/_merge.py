"""Several ordered readings as one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from operator import attrgetter

from journals._log import Stored


async def merge_by_position(readings: Sequence[AsyncIterator[Sequence[Stored]]]) -> AsyncGenerator[Sequence[Stored]]:
    """The messages of all readings in order of position; the readings are asked at the same time."""
    waiting: list[list[Stored]] = [list(group) for group in await asyncio.gather(*map(_next_group, readings))]
    while any(waiting):
        # Whatever lies below every unfinished reading's newest message cannot be overtaken any more.
        bound = min(group[-1].position for group in waiting if group)
        ready = sorted(
            (stored for group in waiting for stored in group if stored.position <= bound), key=attrgetter("position")
        )
        yield ready
        for number, group in enumerate(waiting):
            left = [message for message in group if message.position > bound]
            if group and not left:
                left = list(await _next_group(readings[number]))
            waiting[number] = left


async def _next_group(reading: AsyncIterator[Sequence[Stored]]) -> Sequence[Stored]:
    async for group in reading:
        if group:
            return group
    return ()
