"""Surroundings: what an episode finds in the run that it is a part of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from branches.agents.budget import Budget
from branches.agents.chunks import Stream
from branches.agents.circle import GateCall
from branches.agents.code import CodeRun
from branches.agents.deadline import Deadline
from policies import Action, Outcome

if TYPE_CHECKING:
    from branches.agents.episode import Episode


class Surroundings(Protocol):
    """What an episode finds in its run.

    `open_stream` makes a stream by its id: that of one utterance's text, or of the
    thought before it; `kept` are snapshots of the variables, by the code
    that they were taken after.
    """

    budget: Budget
    open_stream: Callable[[str, bool], Stream] | None
    kept: Mapping[str, bytes]

    def recorded(self, call: str) -> Outcome | None:
        """The recorded outcome of a call, by its id; of one of an earlier run too, if code is to be run again."""
        ...

    def known(self, call: str) -> bool:
        """Whether it is recorded that a call of this id is made."""
        ...

    def abandon(self, scope: str) -> None:
        """Let go of what is recorded of a scope that is left early."""
        ...

    def deadline(self, run: str, seconds: float) -> Deadline:
        """When this episode is due that may take so many seconds; it stands still while people are asked."""
        ...

    def look(self) -> None:
        """Something has happened behind which an episode's time may go on that has stood still."""
        ...

    def action_of(self, episode: Episode, call: GateCall) -> Action:
        """The action of a gate call, with what it may call in turn."""
        ...

    def calling(self, episode: Episode, id: str) -> AbstractContextManager[None]:
        """While the call of this id is made, this is the episode that makes it."""
        ...

    async def ran(self, episode: Episode, call: str, run: CodeRun) -> None:
        """This code was run just now, and its outcome is recorded."""
        ...
