"""What happens in an episode, on standard error while it happens, for a person who waits for its answer."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import aclosing, closing
from typing import Any

import msgspec

from branches.agents.events import AnyEvent, StepStartEvent, ThinkingEvent, ToolCallEvent, ToolResultEvent
from branches.agents.gates import DONE
from coven.cli._tree import shortened, told_arguments
from coven.conversation import Conversation
from journals import Record
from leaves.chats._terminal import colours, visible

_WIDTH = 100


async def watch(conversation: Conversation, prompt: Record[Any]) -> None:
    """Print what happens until the episode is over."""
    with closing(Watching(_write, colour=sys.stderr.isatty() and colours(os.environ))) as watching:
        async with aclosing(conversation.watch(prompt)) as events:
            async for event in events:
                watching.tell(event)


def _write(text: str) -> None:
    print(text, end="", file=sys.stderr, flush=True)


class Watching:
    """Writes events: a line for each turn, call and result, and each thought as it comes, faint where there is colour.

    Of children that think at the same time, each goes on in a line of its own.
    """

    def __init__(self, write: Callable[[str], None], *, colour: bool) -> None:
        self._write, self._colour = write, colour
        self._thinking: str | None = None
        self._margin, self._broken = "", False

    def __repr__(self) -> str:
        return f"<Watching, in a thought of {self._thinking}>" if self._thinking else "<Watching>"

    def tell(self, event: AnyEvent) -> None:
        """Write what is to be seen of an event."""
        if isinstance(event, ThinkingEvent):
            self._think(event)
            return
        lines = list(lines_of(event))
        if lines or event.turn_id == self._thinking:
            self.close()
        for line in lines:
            self._write(f"{line}\n")

    def close(self) -> None:
        """End the line of a thought, if one is open."""
        if self._thinking is not None:
            self._thinking = None
            self._put(")")
            self._write("\n")

    def _think(self, event: ThinkingEvent) -> None:
        """The next piece; one that takes the place of others begins anew, since a terminal keeps what it shows."""
        if event.restart or event.turn_id != self._thinking:
            self.close()
        for number, line in enumerate(visible(event.text).split("\n")):
            self._broken = self._broken or number > 0
            if self._thinking is None and line.strip():
                self._thinking, self._margin, self._broken = event.turn_id, "  " * (event.depth + 1), False
                self._write(self._margin)
                self._put("(")
            elif self._broken and line.strip():
                self._broken = False
                self._write(f"\n{self._margin}")
            if self._thinking is not None and line and not self._broken:
                self._put(line)

    def _put(self, text: str) -> None:
        self._write(f"\x1b[2m{text}\x1b[0m" if self._colour else text)


def lines_of(event: AnyEvent) -> Iterator[str]:
    """The lines that tell an event that is no thought; what children do stands further to the right."""
    margin = "  " * (event.depth + 1)
    match event:
        case StepStartEvent():
            yield f"{margin[2:]}turn {event.step}"
        case ToolCallEvent() if event.gate != DONE.name:
            yield f"{margin}{shortened(f'{event.gate}({told_arguments(event.arguments)})', _WIDTH)}"
        case ToolResultEvent() if event.gate != DONE.name:
            told = event.result if isinstance(event.result, str) else _json(event.result)
            yield f"{margin}  {'failed: ' if event.is_error else ''}{shortened(told, _WIDTH)}"
        case _:
            pass


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
