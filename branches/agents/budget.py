"""The budget of an episode and its children: tokens are reserved before a request, and settled after it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from branches.agents.crystal import Message, Usage
from branches.agents.internal import AgentUtterance, CrystalCalled
from branches.agents.naming import turn_id
from journals import Entry, Record

_REPLY: Final = 1024
"""Tokens that an answer may take where the call does not bound it."""
_CHARACTERS_A_TOKEN: Final = 4


class Budget:
    """So many tokens, for all requests of one episode and of its children.

    A request in doubt, whose attempt was cut off, keeps its reservation: it may have been paid for.
    """

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._spent = 0
        self._reserved: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<Budget {self._spent} spent, {sum(self._reserved.values())} reserved of {self._limit}>"

    def restore(self, records: Iterable[Record[Entry]]) -> None:
        """Take in what was reserved and spent before a restart."""
        for record in records:
            entry = record.entry
            if isinstance(entry, CrystalCalled) and entry.reserved:
                id = turn_id(entry.run, entry.turn)
                self._reserved[id] = self._reserved.get(id, 0) + entry.reserved
            elif isinstance(entry, AgentUtterance):
                self.settle(turn_id(entry.run, entry.turn), entry.usage)

    def reserve(self, id: str, tokens: int) -> int | None:
        """Set tokens aside for a turn's request; None if that is more than is left. 0 where nothing bounds them.

        A turn that has its reservation already keeps it.
        """
        if self._limit is None:
            return 0
        if id in self._reserved:
            return self._reserved[id]
        if self._spent + sum(self._reserved.values()) + tokens > self._limit:
            return None
        self._reserved[id] = tokens
        return tokens

    def settle(self, id: str, usage: Usage) -> None:
        """The answer has come: what it used counts, and the reservation is free again."""
        self._reserved.pop(id, None)
        self._spent += usage.prompt + usage.completion


def estimate(characters: int, max_tokens: int | None) -> int:
    """Tokens that a request of so many characters may come to, with its answer."""
    return characters // _CHARACTERS_A_TOKEN + (max_tokens or _REPLY)


def characters(messages: Sequence[Message]) -> int:
    """The size of messages, as `estimate` wants it."""
    return sum(size(message) for message in messages)


def size(message: Message) -> int:
    """The characters of one message."""
    return len(message.content or "") + sum(len(call.arguments) + len(call.gate) for call in message.tool_calls)
