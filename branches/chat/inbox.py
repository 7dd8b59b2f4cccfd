"""What comes in from a platform, one after the other in each conversation, and the conversations beside each other."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeVar

_REMEMBERED = 10_000

T = TypeVar("T")


class Inbox(Generic[T]):
    """Hands each item to `handle`, in order within its place: attachments take their time, and order holds."""

    def __init__(self, tasks: asyncio.TaskGroup, handle: Callable[[T], Awaitable[None]]) -> None:
        self._tasks, self._handle = tasks, handle
        self._waiting: dict[Hashable, deque[T]] = {}
        self._seen: OrderedDict[Hashable, None] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Inbox {sum(map(len, self._waiting.values()))} items in {len(self._waiting)} places>"

    def put(self, place: Hashable, item: T, id: Hashable | None = None) -> bool:
        """Queue an item behind the rest of its place; False if one of this id came lately, which is left out."""
        if id is not None and not self.new(id):
            return False
        queue = self._waiting.get(place)
        if queue is not None:
            queue.append(item)
            return True
        queue = self._waiting[place] = deque([item])
        self._tasks.create_task(self._work(place, queue))
        return True

    def waiting(self, place: Hashable) -> Sequence[T]:
        """What has come of a place and is not handled to its end, in order."""
        return tuple(self._waiting.get(place, ()))

    def new(self, id: Hashable) -> bool:
        """Remember this id, as `put` does; False if it came lately."""
        if id in self._seen:
            return False
        self._seen[id] = None
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return True

    async def _work(self, place: Hashable, queue: deque[T]) -> None:
        while queue:
            await self._handle(queue[0])
            queue.popleft()
        del self._waiting[place]
