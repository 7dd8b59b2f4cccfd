"""Who acts: entities, and their runs, each of which is one episode."""

from __future__ import annotations

from branches.agents.loom._turn import Shown
from branches.agents.root_call import RootCall


class Entity:
    """One entity and how far it has come: how many turns it took, and which turn its next one hangs below."""

    def __init__(self, id: str, parent: str | None) -> None:
        self.id, self.last = id, parent
        self._turns = 0

    def __repr__(self) -> str:
        return f"<Entity {self.id} after {self._turns} turns>"

    def next_turn(self) -> tuple[int, str | None]:
        """The sequence number and the parent of the turn that begins now."""
        self._turns += 1
        return self._turns, self.last


class Run:
    """One episode: of a root entity on a prompt, or of a child on its call."""

    def __init__(
        self,
        id: str,
        session: str,
        entity: Entity,
        call: RootCall,
        intent: str | None,
        images: tuple[Shown, ...] = (),
    ) -> None:
        self.id, self.session, self.entity, self.call = id, session, entity, call
        self.circle = call.circle
        self.children: list[Run] = []
        self.begun = self.ended = False
        self._intent, self._images = intent, images

    def __repr__(self) -> str:
        return f"<Run {self.id} of {self.entity!r}>"

    def take_intent(self) -> tuple[str | None, tuple[Shown, ...]]:
        """The intent and its images, for the first turn alone."""
        taken = self._intent, self._images
        self._intent, self._images = None, ()
        return taken
