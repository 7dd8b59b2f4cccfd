"""What the host runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Protocol, cast


class Service(Protocol):
    """Something that runs until it is cancelled.

    Stopping is cancellation: every service can be cut anywhere, since whatever it did is in its journal and it goes
    on from there. A service that returns or raises by itself has failed, and the host restarts it.
    """

    @property
    def name(self) -> str:
        """The name in the configuration, e.g. `agents`."""
        ...

    async def run(self, ready: Callable[[], None]) -> None:
        """Do the work; call `ready()` once, when requests are being served."""
        ...


class Finished(Exception):
    """Raised by a service when the outside asked for the end (`/quit`, end of input).

    Everything it had to do is done; the host stops the other services in order and exits with 0.
    """


def first_error(error: BaseException) -> BaseException:
    """What a service that runs a task group should raise: its first real error, or else `Finished`."""
    errors = list(_leaves(error))
    return next((error for error in errors if not isinstance(error, Finished)), errors[0])


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _leaves(inner)
    else:
        yield error


def is_being_cancelled() -> bool:
    """Whether somebody wants the task that asks this to end; else a `CancelledError` comes from its own work."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
