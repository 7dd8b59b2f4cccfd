"""The loom as lines of JSON, one turn a line, as the specification has them; and a loom from such lines.

Beside the specification's fields a line has those of `Turn`, and where a cantrip first appears its `call`. A turn that
failed or was cancelled says `truncated`, with a `reason`; its `ending` tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec.structs import asdict

from branches.agents.circle import Observation
from branches.agents.loom._loom import Loom
from branches.agents.loom._turn import Turn
from branches.agents.root_call import RootCall
from journals import JournalError
from policies import InvalidPayload, freeze


class InvalidLoomLine(JournalError):
    """A line that is no turn, or one that does not fit those before it."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(f"line {number}: {reason}")
        self.number, self.reason = number, reason


class _Observation(Observation, frozen=True, kw_only=True):
    """A gate call as others may write it: `args` and `tool_call_id` are optional (D-005)."""

    args: dict[str, Any] = {}
    result: Any = None


class _Line(Turn, frozen=True, kw_only=True):
    """One line. Other programs may add keys of their own."""

    gate_calls: tuple[_Observation, ...] = ()
    call: RootCall | None = None


_OWN = ("ending", "reason", "result", "error", "intent", "session", "model", "finish", "images", "call")
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Line)


def export_loom(loom: Loom) -> Iterator[bytes]:
    """The turns in chronological order, each as a line of JSON with its line break; made while they are taken."""
    told: set[str] = set()
    for turn in loom.turns:
        fields = asdict(turn)
        fields["truncated"] = turn.ending not in (None, "terminated") or turn.truncated
        fields["reason"] = turn.reason or (turn.ending if turn.ending not in (None, "terminated") else None)
        fields["images"] = turn.images or None
        if turn.cantrip_id not in told:
            told.add(turn.cantrip_id)
            fields["call"] = loom.calls.get(turn.cantrip_id)
        yield _encoder.encode({name: fields[name] for name in fields if _is_told(name, fields[name])}) + b"\n"


def import_loom(lines: Iterable[bytes | str]) -> Loom:
    """The loom of such lines; empty ones are passed over. Raises `InvalidLoomLine`, which names the line."""
    turns: dict[str, Turn] = {}
    calls: dict[str, RootCall] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            parsed = _decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise InvalidLoomLine(number, f"this is no turn: {error}") from None
        if parsed.id in turns:
            raise InvalidLoomLine(number, f"turn {parsed.id!r} stands in an earlier line already")
        if parsed.parent_id is not None and parsed.parent_id not in turns:
            raise InvalidLoomLine(number, f"its parent {parsed.parent_id!r} stands in no earlier line")
        try:
            turns[parsed.id] = _turn(parsed)
        except InvalidPayload as error:
            raise InvalidLoomLine(number, f"this is no turn: {error.reason}") from None
        if parsed.call is not None:
            calls.setdefault(parsed.call.cantrip_id, parsed.call)
    return Loom(turns.values(), calls.values())


def _is_told(name: str, value: object) -> bool:
    """Fields of the specification always stand in a line, ours where they say something."""
    return value is not None or name not in _OWN


def _turn(line: _Line) -> Turn:
    fields: dict[str, Any] = {name: getattr(line, name) for name in Turn.__struct_fields__}
    ending = line.ending or ("terminated" if line.terminated else "truncated" if line.truncated else None)
    fields["ending"], fields["truncated"] = ending, ending == "truncated"
    fields["result"] = freeze(line.result)
    fields["gate_calls"] = tuple(
        Observation(**{**asdict(call), "args": freeze(call.args), "result": freeze(call.result)})
        for call in line.gate_calls
    )
    return Turn(**fields)
