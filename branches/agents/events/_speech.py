"""What runs think and say, as events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from branches.agents.entries import AgentChunk
from branches.agents.events._events import TextEvent, ThinkingEvent
from branches.agents.events._pieces import Piece, Pieces
from branches.agents.events._running import Running
from branches.agents.naming import read_stream_id

Kind = type[ThinkingEvent] | type[TextEvent]


class Speech:
    """Tells what the runs at work think and say: each piece once, ahead of the utterance or with it."""

    def __init__(self) -> None:
        self._runs: dict[str, Running] = {}
        self._kinds: dict[Kind, Pieces] = {ThinkingEvent: Pieces(), TextEvent: Pieces()}

    def __repr__(self) -> str:
        return f"<Speech of {len(self._runs)} turns at work>"

    def begin(self, run: Running, attempt: int) -> Iterator[ThinkingEvent | TextEvent]:
        """The crystal is asked in the run's newest turn."""
        self._runs[run.base_id] = run
        for kind, pieces in self._kinds.items():
            yield from _told(kind, run, pieces.begin(run.base_id, attempt))

    def take(self, chunk: AgentChunk) -> Iterator[ThinkingEvent | TextEvent]:
        """A piece came, which is named for its turn and attempt."""
        named, kind = read_stream_id(chunk.stream), ThinkingEvent if chunk.thought else TextEvent
        if named is not None:
            turn, attempt = named
            yield from _told(kind, self._runs.get(turn), [self._kinds[kind].take(turn, attempt, chunk)])

    def finish(self, run: Running, thought: str, text: str) -> Iterator[ThinkingEvent | TextEvent]:
        """The utterance of the run's newest turn is recorded."""
        self._runs.pop(run.base_id, None)
        for (kind, pieces), whole in zip(self._kinds.items(), (thought, text), strict=True):
            yield from _told(kind, run, [pieces.finish(run.base_id, whole)])

    def drop(self, run: Running) -> None:
        """The run is over, whatever it was about to say."""
        self._runs.pop(run.base_id, None)
        for pieces in self._kinds.values():
            pieces.drop(run.base_id)


def _told(kind: Kind, run: Running | None, pieces: Iterable[Piece | None]) -> Iterator[ThinkingEvent | TextEvent]:
    for piece in pieces:
        if run is not None and piece is not None:
            yield kind(**run.whose, text=piece.text, restart=piece.restart)
