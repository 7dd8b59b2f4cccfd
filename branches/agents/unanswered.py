"""Which prompts wait for their response, found by a fold of the journal that begins where the last one had ended."""

from __future__ import annotations

from typing import Final, cast

from branches.agents.entries import AgentPrompt, AgentResponse
from branches.agents.internal import AgentsSettled
from journals import Claim, ClaimLost, Journal, derive_id

SETTLED_SESSION: Final = "agents.settled"
_KINDS: Final = (AgentPrompt.kind(), AgentResponse.kind())


class Unanswered:
    """The positions of the prompts without response, and how far everything before them is settled.

    Every so often it is written down how far, so that a start need not read it again. Prompts are opened in the
    order of the journal; one may be closed before it is opened here, when its session read ahead of the tail.
    """

    def __init__(self, journal: Journal, owner: str, every: int) -> None:
        self._journal, self._owner, self._every = journal, owner, every
        self._claim: Claim | None = None
        self._open: dict[int, None] = {}
        self._closed_ahead: set[int] = set()
        self._written = 0
        self._seen = 0

    def __repr__(self) -> str:
        return f"<Unanswered {len(self._open)} prompts, all settled up to {self.settled}>"

    @property
    def settled(self) -> int:
        """Every prompt up to this position has its response."""
        return next(iter(self._open), self._seen + 1) - 1

    async def fold(self) -> list[str]:
        """Read the journal as it is now; gives the sessions with open prompts, the one that waits longest first.

        Time grows with what was recorded since the last `AgentsSettled`, memory with what is open.
        """
        self._claim = None
        self._open.clear()
        self._closed_ahead.clear()
        newest = await self._journal.last(session=SETTLED_SESSION, kinds=[AgentsSettled.kind()])
        self._written = 0 if newest is None else cast("AgentsSettled", newest.entry).position
        self._seen = await self._journal.end()
        prompts: dict[str, tuple[int, str]] = {}
        async for record in self._journal.read(after=self._written, before=self._seen + 1, kinds=_KINDS):
            if record.kind == AgentResponse.kind():
                prompts.pop(record.causation_id or "", None)
            elif isinstance(record.entry, AgentPrompt) and not record.imported:
                prompts[record.id] = (record.position, record.session)
        self._open.update(dict.fromkeys(position for position, _ in prompts.values()))
        return list(dict.fromkeys(session for _, session in prompts.values()))

    @property
    def seen(self) -> int:
        """How far the journal was read."""
        return self._seen

    def see(self, position: int, *, prompt: bool) -> None:
        """The tail has come this far; `prompt` says that a prompt stands there, to be answered."""
        self._seen = position
        if not prompt:
            return
        if position in self._closed_ahead:
            self._closed_ahead.remove(position)
        else:
            self._open[position] = None

    async def close(self, position: int) -> None:
        """The prompt at this position has its response. Raises what the journal raises."""
        if position in self._open:
            del self._open[position]
        elif position > self._seen:
            self._closed_ahead.add(position)
        settled = self.settled
        if settled - self._written < self._every:
            return
        self._written = settled
        try:
            if self._claim is None:
                self._claim = await self._journal.claim(SETTLED_SESSION, self._owner)
            await self._journal.append(
                AgentsSettled(position=settled),
                session=SETTLED_SESSION,
                id=derive_id("settled", settled),
                expect=self._claim,
            )
        except ClaimLost:
            self._claim = None  # a newer service keeps these notes, too; each is true by itself
