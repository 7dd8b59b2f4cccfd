"""What the crystal said, as it stands in the journal: by itself, as the call it begins with, or as an ending."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from branches.agents.crystal import is_cut
from branches.agents.entries import AgentResponse, AgentToolCall, LastTurn, Utterance
from branches.agents.gate import thaw
from branches.agents.internal import AgentUtterance, EntityReturned
from branches.agents.naming import gate_call_id, run_id
from branches.agents.steps import Said
from journals import Entry, Record

_encoder: Final = msgspec.json.Encoder()
_BESIDE: Final = tuple(field for field in LastTurn.__struct_fields__ if field != "turn")


def utterance_entry(said: Said, run: str, turn: int) -> AgentUtterance:
    """What was said, by itself."""
    return AgentUtterance(
        run=run,
        turn=turn,
        content=said.content,
        tool_calls=said.tool_calls,
        **_beside(said),
    )


def calling_entry(said: Said, arguments: Mapping[str, Any], run: str, turn: int, scope: str | None) -> AgentToolCall:
    """What was said as its first call, which has these arguments; `scope` is that of the call."""
    first, *others = said.tool_calls
    if first.arguments == _as_text(arguments):
        first = replace(first, arguments="")
    whole = Utterance(
        turn=turn,
        content=said.content,
        tool_calls=(first, *others),
        **_beside(said),
    )
    return AgentToolCall(
        correlation_id=gate_call_id(run, turn, 0),
        tool_name=first.gate,
        arguments=thaw(arguments),
        scope=scope,
        said=whole,
    )


def last_turn(said: Said, turn: int) -> LastTurn:
    """What was said beside the text that ends the episode."""
    return LastTurn(turn=turn, **_beside(said))


def said_in(entry: AgentUtterance) -> Said:
    """What was said."""
    return Said(content=entry.content, tool_calls=entry.tool_calls, **_beside(entry))


SPEAKING: Final = frozenset(kind.kind() for kind in (AgentUtterance, AgentToolCall, AgentResponse, EntityReturned))
"""The kinds of the records that may say what the crystal said."""


def utterance_in(record: Record[Entry]) -> AgentUtterance | None:
    """What the crystal said, if this record says so: by itself, as the call it begins with, or as an ending."""
    if record.kind not in SPEAKING:
        return None
    entry, run = record.entry, run_id(record.causation_id or "")
    match entry:
        case AgentUtterance():
            return entry
        case AgentToolCall(said=Utterance() as said):
            first, *others = said.tool_calls
            if not first.arguments:
                first = replace(first, arguments=_as_text(entry.arguments))
            return AgentUtterance(
                run=entry.scope or run,
                turn=said.turn,
                content=said.content,
                tool_calls=(first, *others),
                **_beside(said),
            )
        case AgentResponse(last=LastTurn() as last) | EntityReturned(last=LastTurn() as last):
            return AgentUtterance(
                run=run if isinstance(entry, AgentResponse) else record.correlation_id or "",
                turn=last.turn,
                content=entry.answer if is_cut(last.finish) else entry.text,
                tool_calls=(),
                **_beside(last),
            )
        case _:
            return None


def _beside(answer: Said | Utterance | LastTurn | AgentUtterance) -> dict[str, Any]:
    """What every form of an answer says of it beside its words and calls."""
    return {field: getattr(answer, field) for field in _BESIDE}


def _as_text(arguments: Mapping[str, Any]) -> str:
    """Arguments as compact JSON, which is how most crystals write them."""
    return _encoder.encode(arguments).decode()
