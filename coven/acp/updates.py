"""From what happens in an episode to what an editor shows of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec
from acp import (
    start_tool_call,
    text_block,
    tool_content,
    update_agent_message_text,
    update_agent_thought_text,
    update_tool_call,
)
from acp.schema import AgentMessageChunk, AgentThoughtChunk, ToolCallProgress, ToolCallStart

from branches.agents.events import (
    AnyEvent,
    FinalResponseEvent,
    StepStartEvent,
    TextEvent,
    ThinkingEvent,
    ToolCallEvent,
    ToolResultEvent,
)
from branches.agents.gates import DONE

Update = AgentMessageChunk | AgentThoughtChunk | ToolCallStart | ToolCallProgress
Kind = Literal["read", "edit", "execute", "fetch", "other"]

_KINDS: Final[dict[str, Kind]] = {
    "fs.read_text": "read",
    "fs.list_dir": "read",
    "fs.write_text": "edit",
    "fs.attach": "read",
    "read": "read",
    "write": "edit",
    "shell.exec": "execute",
    "execute": "execute",
    "fetch": "fetch",
    "http.fetch": "fetch",
}
_TITLE: Final = 80
_SHOWN: Final = 20_000


class Updates:
    """Turns events into updates. What children say is left out, what they do is shown.

    The answer that `done` was given is told as text, unless the last turn said just that; of one that begins with it
    only the rest, for example that the text was cut off.
    """

    def __init__(self) -> None:
        self._thoughts, self._texts = _Paragraphs(), _Paragraphs()

    def __repr__(self) -> str:
        return f"<Updates after {len(self._texts.newest)} characters of this turn>"

    def of(self, event: AnyEvent) -> Iterator[Update]:
        """What an event shows."""
        match event:
            case StepStartEvent(depth=0):
                self._thoughts.newest = self._texts.newest = ""
            case ThinkingEvent(depth=0):
                yield from map(update_agent_thought_text, self._thoughts.add(event.text, anew=event.restart))
            case TextEvent(depth=0):
                yield from map(update_agent_message_text, self._texts.add(event.text, anew=event.restart))
            case ToolCallEvent() if event.gate != DONE.name:
                yield start_tool_call(
                    event.id,
                    _title(event),
                    kind=_KINDS.get(event.gate, "other"),
                    status="in_progress",
                    raw_input=msgspec.to_builtins(event.arguments),
                )
            case ToolResultEvent() if event.gate != DONE.name:
                shown = event.result if isinstance(event.result, str) else _json(event.result)
                yield update_tool_call(
                    event.id,
                    status="failed" if event.is_error else "completed",
                    content=[tool_content(text_block(_short(shown, _SHOWN)))],
                    raw_output=msgspec.to_builtins(event.result),
                )
            case FinalResponseEvent(depth=0, ending="terminated") if event.text != self._texts.newest:
                rest = event.text.removeprefix(self._texts.newest)
                yield from map(update_agent_message_text, self._texts.add(rest, anew=rest == event.text))
            case _:
                pass


class _Paragraphs:
    """What an editor puts together, who takes nothing back: what begins anew stands in a paragraph of its own."""

    def __init__(self) -> None:
        self.newest = ""
        self._anything = False

    def add(self, piece: str, *, anew: bool) -> Iterator[str]:
        """What of a piece goes to the editor."""
        begins = anew or not self.newest
        self.newest = piece if anew else self.newest + piece
        if piece:
            yield f"\n\n{piece}" if begins and self._anything else piece
            self._anything = True


def _title(event: ToolCallEvent) -> str:
    told = ", ".join(f"{name}={_json(value)}" for name, value in event.arguments.items())
    return _short(" ".join(f"{event.gate}({told})".split()), _TITLE)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
