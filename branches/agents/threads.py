"""Threads for what blocks: one of its own for each call, so that one that hangs holds nobody else up."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """What the work gives or raises. Cancelled, the work goes on unheard; it does not keep the process from ending."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    context = contextvars.copy_context()

    def tell(told: Callable[[], None]) -> None:
        if not future.done():
            told()

    def run() -> None:
        try:
            told = partial(future.set_result, context.run(work))
        except Exception as error:  # noqa: BLE001 - raised where it is awaited
            told = partial(future.set_exception, _raisable(error))
        except BaseException as error:  # noqa: BLE001 - the end of this thread, and of nothing else
            told = partial(future.set_exception, RuntimeError(f"{type(error).__name__}: {error}"))
        with suppress(RuntimeError):  # the loop may have been closed meanwhile
            loop.call_soon_threadsafe(tell, told)

    threading.Thread(target=run, name="coven-gate", daemon=True).start()
    return await future


def _raisable(error: Exception) -> Exception:
    """A future cannot hold a `StopIteration`."""
    return RuntimeError(f"StopIteration: {error}") if isinstance(error, StopIteration) else error
