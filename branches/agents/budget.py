"""The budget of an episode and its children: tokens are reserved before a request, and settled after it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from branches.agents.codec import utterance_in
from branches.agents.crystal import Usage
from branches.agents.internal import ContextFolded, CrystalCalled
from branches.agents.naming import fold_id, turn_id
from journals import Entry, Record

REPLY_TOKENS: Final = 1024
"""Tokens that an answer may take where the call does not bound it."""


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
            elif isinstance(entry, ContextFolded):
                self.settle(fold_id(entry.run, entry.turn), entry.usage)
            elif (said := utterance_in(record)) is not None:
                self.settle(turn_id(said.run, said.turn), said.usage)

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
