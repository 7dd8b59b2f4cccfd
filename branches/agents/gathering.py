"""Work that is done at the same time, with the first error as itself."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from branches.service import first_error

T = TypeVar("T")


async def gather(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """What all of them give, in their order. When one raises the others are cancelled, and it is raised as it is."""
    try:
        async with asyncio.TaskGroup() as tasks:
            working = [tasks.create_task(work) for work in works]
    except BaseExceptionGroup as group:
        raise first_error(group) from None
    return [task.result() for task in working]
