"""That an answer is awaited is shown, until it is there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from branches.chat.leaf import DeliveryFailed
from branches.chat.live import Away
from leaves.chats.discord.pace import can_wait
from policies import Clock, sleep_until

_EVERY_S = 8.0
_AT_MOST_S = 600.0
_log = logging.getLogger("coven.chat")


class Typing:
    """Says in a channel that something is being written, for each prompt. `show` says it for some seconds.

    It is a courtesy: when Discord refuses, nothing is shown.
    """

    def __init__(self, tasks: asyncio.TaskGroup, show: Callable[[int], Awaitable[None]], clock: Clock) -> None:
        self._tasks, self._show, self._clock = tasks, show, clock
        self._prompts: dict[str, asyncio.Task[None]] = {}

    def __repr__(self) -> str:
        return f"<Typing for {len(self._prompts)} prompts>"

    def start(self, prompt: str, channel: int) -> None:
        """From now on; one that is shown already goes on."""
        if prompt not in self._prompts:
            self._prompts[prompt] = self._tasks.create_task(self._type(prompt, channel))

    def stop(self, prompt: str | None) -> None:
        """No more for this prompt."""
        task = self._prompts.pop(prompt, None) if prompt is not None else None
        if task is not None:
            task.cancel()

    async def _type(self, prompt: str, channel: int) -> None:
        until = self._clock.now() + _AT_MOST_S
        try:
            while self._clock.now() < until:
                with can_wait():
                    await self._show(channel)
                await sleep_until(self._clock, self._clock.now() + _EVERY_S)
        except (Away, DeliveryFailed) as error:
            _log.debug("typing is not shown: %s", error)
        finally:
            self._prompts.pop(prompt, None)
