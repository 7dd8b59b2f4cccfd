"""The budget of an episode and its children: tokens are reserved before a request, and settled after it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from branches.agents.crystal import Usage
from branches.agents.internal import ContextFolded, CrystalCalled, CrystalFailed, CrystalRetried
from branches.agents.naming import fold_id, turn_id
from branches.agents.utterances import utterance_in
from journals import Entry, Record

REPLY_TOKENS: Final = 1024
"""Tokens that an answer may take where the call does not bound it."""


class Budget:
    """So many tokens, for all requests of one episode and of its children.

    A request in doubt, whose attempt was cut off, counts as it was reserved: it may have been paid for.
    """

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._spent = 0
        self._reserved: dict[str, int] = {}
        self._settled: set[str] = set()

    def __repr__(self) -> str:
        return f"<Budget {self._spent} spent, {sum(self._reserved.values())} reserved of {self._limit}>"

    def restore(self, records: Iterable[Record[Entry]]) -> None:
        """Take in what was reserved and spent before a restart. What is recorded here is not counted again."""
        if self._limit is None:
            return
        for record in records:
            entry = record.entry
            if isinstance(entry, CrystalCalled) and entry.reserved:
                name = fold_id if entry.summarises else turn_id
                self._reserve(name(entry.run, entry.turn), entry.reserved)
            elif isinstance(entry, CrystalRetried):
                self._reserved.pop(turn_id(entry.run, entry.turn), None)
            elif isinstance(entry, CrystalFailed):
                if entry.usage != Usage():
                    self._restore(turn_id(entry.run, entry.turn), entry.usage)
            elif isinstance(entry, ContextFolded):
                self._restore(fold_id(entry.run, entry.turn), entry.usage)
            elif (said := utterance_in(record)) is not None:
                self._restore(turn_id(said.run, said.turn), said.usage)

    def reserve(self, id: str, tokens: int) -> int | None:
        """Set tokens aside for a request; None if that is more than is left. 0 where nothing bounds them.

        A request whose answer is recorded needs none.
        """
        if self._limit is None or id in self._settled:
            return 0
        if self._spent + sum(self._reserved.values()) + tokens > self._limit:
            return None
        self._reserve(id, tokens)
        return tokens

    def settle(self, id: str, usage: Usage) -> None:
        """The answer has come: what it used counts, and the reservation is free again."""
        if id in self._settled:
            self._settled.remove(id)
            return
        self._reserved.pop(id, None)
        self._spent += usage.prompt + usage.completion

    def _reserve(self, id: str, tokens: int) -> None:
        self._spent += self._reserved.pop(id, 0)  # an attempt in doubt
        self._reserved[id] = tokens

    def _restore(self, id: str, usage: Usage) -> None:
        self.settle(id, usage)
        self._settled.add(id)
