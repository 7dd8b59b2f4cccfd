"""The pieces of utterances that come ahead of them, from another journal and so in no order with ours."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final, NamedTuple

from branches.agents.entries import AgentChunk

_TURNS_KEPT: Final = 1_000
"""Of how many turns that are over, or not begun, something is remembered."""


class Piece(NamedTuple):
    """Text that is new; with `restart`, the pieces of its turn that came before are void."""

    text: str
    restart: bool


class _Utterance:
    """One turn's text, as far as it has come."""

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

    def finish(self, content: str) -> Piece | None:
        said = "".join(self.pieces)
        if self.void or not content.startswith(said):
            return Piece(content, True)
        rest = content[len(said) :]
        return Piece(rest, False) if rest else None


class Texts:
    """Joins the pieces of the turns at work with their utterances, so that no text is told twice."""

    def __init__(self) -> None:
        self._working: dict[str, _Utterance] = {}
        self._early: OrderedDict[str, list[AgentChunk]] = OrderedDict()
        self._over: OrderedDict[str, None] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Texts of {len(self._working)} turns at work>"

    def begin(self, turn: str, attempt: int) -> list[Piece]:
        """The crystal is asked; gives the pieces that were here before the news of it."""
        if turn in self._working:
            self._working[turn].again(attempt)
            return []
        self._working[turn] = _Utterance(attempt)
        pieces = [self.take(chunk) for chunk in self._early.pop(turn, [])]
        return [piece for piece in pieces if piece is not None]

    def take(self, chunk: AgentChunk) -> Piece | None:
        """The next piece of a stream, which is named for its turn and attempt; gives what is new."""
        turn, _, attempt = chunk.stream.rpartition(".")
        working = self._working.get(turn)
        if working is not None and attempt.isdecimal():
            return working.take(int(attempt), chunk)
        if turn not in self._over:
            self._early.setdefault(turn, []).append(chunk)
            _bound(self._early)
        return None

    def finish(self, turn: str, content: str) -> Piece | None:
        """The utterance is here; gives what of it was not told yet."""
        self._over[turn] = None
        _bound(self._over)
        self._early.pop(turn, None)
        return self._working.pop(turn, _Utterance(0)).finish(content)


def _bound(kept: OrderedDict[str, Any]) -> None:
    if len(kept) > _TURNS_KEPT:
        kept.popitem(last=False)
