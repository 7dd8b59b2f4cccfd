"""What happens in an episode, line by line on standard error, for a person who waits for its answer."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import msgspec

from branches.agents.events import AnyEvent, StepStartEvent, ThinkingEvent, ToolCallEvent, ToolResultEvent
from branches.agents.gates import DONE
from coven.cli._tree import shortened
from coven.conversation import Conversation
from journals import Record

_WIDTH = 100


async def watch(conversation: Conversation, prompt: Record[Any]) -> None:
    """Print what happens until the episode is over."""
    async with aclosing(conversation.watch(prompt)) as events:
        async for event in events:
            for line in lines_of(event):
                print(line, file=sys.stderr, flush=True)


def lines_of(event: AnyEvent) -> Iterator[str]:
    """The lines that tell an event; what children do stands further to the right."""
    margin = "  " * (event.depth + 1)
    match event:
        case StepStartEvent():
            yield f"{margin[2:]}turn {event.step}"
        case ThinkingEvent():
            yield f"{margin}({shortened(event.text, _WIDTH)})"
        case ToolCallEvent() if event.gate != DONE.name:
            told = ", ".join(f"{name}={_json(value)}" for name, value in event.arguments.items())
            yield f"{margin}{shortened(f'{event.gate}({told})', _WIDTH)}"
        case ToolResultEvent() if event.gate != DONE.name:
            told = event.result if isinstance(event.result, str) else _json(event.result)
            yield f"{margin}  {'failed: ' if event.is_error else ''}{shortened(told, _WIDTH)}"
        case _:
            pass


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
