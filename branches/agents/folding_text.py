"""How folded turns are told: the note that names them, what the entity said in them, and the request to summarise."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

from branches.agents.crystal import Message, ToolCall

SUMMARISE: Final = (
    "You condense the working memory of an agent. Summarise the turns below for the agent itself, which goes on from "
    "here and sees nothing of them but your summary: what it was asked and what it has found out, decided and done, "
    "with the names, numbers and paths it will need, what failed, and what is still open. Only the summary, no preface."
)
_NAMED_GATES = 20
_OTHERS = "others"
_PIECE_CHARS, _SHORTEST_PIECE = 4_000, 200
_GATE = re.compile(r"([\w.-]{1,64}) \((\d+)\)")
_FAILED = re.compile(r"; (\d+) failed\]")
_FIRST = re.compile(r"\[turns? (\d+)")


class Turn(Protocol):
    """The messages of one turn, behind the intents that began it."""

    @property
    def number(self) -> int:
        """Which turn of the thread it is."""
        ...

    @property
    def messages(self) -> tuple[Message, ...]:
        """What was said in it."""
        ...

    @property
    def intents(self) -> tuple[Message, ...]:
        """What was asked before it."""
        ...


def note(earlier: str, turns: Sequence[Turn], said: str, limit: int) -> str:
    """What stands for the turns and for those that `earlier` stood for: a line that names them, and what was said.

    `[turns 1-5 folded: gates called: echo (4), read (1); 1 failed]`. Of what was said, the newest `limit` characters.
    """
    heading, _, before = earlier.partition("\n")
    gates, failed = _tally(heading, turns)
    first = int(found[1]) if (found := _FIRST.match(heading)) else turns[0].number
    last = turns[-1].number
    span = f"turn {last}" if first == last else f"turns {first}-{last}"
    called = ", ".join(f"{gate} ({times})" for gate, times in gates.items()) or "none"
    errors = f"; {failed} failed" if failed else ""
    body = _newest("\n\n".join(part for part in (before.strip(), said) if part), limit)
    return f"[{span} folded: gates called: {called}{errors}]" + (f"\n\n{body}" if body else "")


def reasoning(turns: Iterable[Turn]) -> str:
    """What the entity said and called in the turns, without what its gates gave."""
    return "\n\n".join("\n".join(_lines(turn, _PIECE_CHARS, results=False)) for turn in turns)


def request(earlier: str, turns: Sequence[Turn], tokens: int | None) -> tuple[Message, ...]:
    """What a crystal is asked so that it summarises the turns, in about `tokens` tokens at most."""
    pieces = sum(len(turn.messages) + len(turn.intents) for turn in turns)
    most = _PIECE_CHARS if tokens is None else min(_PIECE_CHARS, max(_SHORTEST_PIECE, 3 * tokens // max(1, pieces)))
    told = ["\n".join(_lines(turn, most, results=True)) for turn in turns]
    before = [f"before these turns:\n{earlier}"] if earlier else []
    return Message("system", SUMMARISE), Message("user", "\n\n".join([*before, *told]))


def shortened(text: str, limit: int) -> str:
    """The beginning and the end of a text that is too long."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]} … ({len(text) - 2 * half} characters left out) … {text[-half:]}"


def _lines(turn: Turn, most: int, *, results: bool) -> Iterator[str]:
    yield f"turn {turn.number}:"
    if results:
        for intent in turn.intents:
            yield f"asked: {shortened(intent.content or '', most)}"
    calls: dict[str, ToolCall] = {}
    for message in turn.messages:
        if message.role == "assistant":
            if message.content:
                yield shortened(message.content, most) if results else message.content
            for call in message.tool_calls:
                calls[call.id] = call
                yield f"called {call.gate} {shortened(call.arguments, most)}"
        elif message.role == "tool" and results:
            call = calls.get(message.tool_call_id or "")
            yield f"{call.gate if call else 'a gate'} gave: {shortened(message.content or '', most)}"


def _tally(heading: str, turns: Iterable[Turn]) -> tuple[dict[str, int], int]:
    """How often each gate was called in all folded turns, and how many calls failed."""
    gates = Counter({gate: int(times) for gate, times in _GATE.findall(heading)})
    failed = int(found[1]) if (found := _FAILED.search(heading)) else 0
    for message in (message for turn in turns for message in turn.messages):
        gates.update(call.gate if _GATE.fullmatch(f"{call.gate} (1)") else _OTHERS for call in message.tool_calls)
        failed += message.role == "tool" and message.is_error
    if len(gates) > _NAMED_GATES:
        rest = gates.pop(_OTHERS, 0)
        named = dict(gates.most_common(_NAMED_GATES - 1))
        return {**named, _OTHERS: rest + gates.total() - sum(named.values())}, failed
    return dict(gates), failed


def _newest(text: str, limit: int) -> str:
    """The end of the text, from the first whole paragraph that fits; of one that is too long alone, its end."""
    if len(text) <= limit:
        return text
    cut = text[-limit:]
    _, _, whole = cut.partition("\n\n")
    return whole or cut
