"""The pieces of thoughts and texts that come ahead of them, from another journal and so in no order with ours."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final, NamedTuple

from branches.agents.entries import AgentChunk

_TURNS_KEPT: Final = 1_000
"""Of how many turns that are over, or not begun, something is remembered."""


class Piece(NamedTuple):
    """What is new; with `restart`, the pieces of its turn that came before are void."""

    text: str
    restart: bool


class _Attempts:
    """One turn's text as far as it has come, in the newest attempt at it."""

    def __init__(self, attempt: int) -> None:
        self.attempt, self.next, self.pieces = attempt, 0, list[str]()
        self.void = False

    def again(self, attempt: int) -> None:
        """The crystal is asked again: what came until now is not what it says."""
        if attempt > self.attempt:
            self.void = self.void or bool(self.pieces)
            self.attempt, self.next, self.pieces = attempt, 0, []

    def take(self, attempt: int, chunk: AgentChunk) -> Piece | None:
        self.again(attempt)
        if attempt < self.attempt or chunk.index != self.next:  # behind a gap nothing fits any more
            return None
        self.next += 1
        self.pieces.append(chunk.text)
        restart, self.void = self.void, False
        return Piece(chunk.text, restart)

    def finish(self, whole: str) -> Piece | None:
        told = "".join(self.pieces)
        if self.void or not whole.startswith(told):
            return Piece(whole, True)
        rest = whole[len(told) :]
        return Piece(rest, False) if rest else None


class Pieces:
    """Joins the pieces of the turns at work with what is recorded of them, so that nothing is told twice."""

    def __init__(self) -> None:
        self._working: dict[str, _Attempts] = {}
        self._early: OrderedDict[str, list[tuple[int, AgentChunk]]] = OrderedDict()
        self._over: OrderedDict[str, None] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Pieces of {len(self._working)} turns at work>"

    def begin(self, turn: str, attempt: int) -> list[Piece]:
        """The crystal is asked; gives the pieces that were here before the news of it."""
        if turn in self._working:
            self._working[turn].again(attempt)
            return []
        self._working[turn] = _Attempts(attempt)
        pieces = [self.take(turn, *early) for early in self._early.pop(turn, [])]
        return [piece for piece in pieces if piece is not None]

    def take(self, turn: str, attempt: int, chunk: AgentChunk) -> Piece | None:
        """The next piece of an attempt; gives what is new."""
        working = self._working.get(turn)
        if working is not None:
            return working.take(attempt, chunk)
        if turn not in self._over:
            self._early.setdefault(turn, []).append((attempt, chunk))
            _bound(self._early)
        return None

    def finish(self, turn: str, whole: str) -> Piece | None:
        """What they are pieces of is recorded; gives what of it was not told yet."""
        working = self._working.get(turn) or _Attempts(0)
        self.drop(turn)
        return working.finish(whole)

    def drop(self, turn: str) -> None:
        """No more is to be told of this turn."""
        self._over[turn] = None
        _bound(self._over)
        self._early.pop(turn, None)
        self._working.pop(turn, None)


def _bound(kept: OrderedDict[str, Any]) -> None:
    if len(kept) > _TURNS_KEPT:
        kept.popitem(last=False)
