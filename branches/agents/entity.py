"""The entity of a session: what it was cast as, what it has seen, and its variables, as its records tell it."""

from __future__ import annotations

from msgspec.structs import replace

from branches.agents.cantrip import Cantrip, cast_entry, recall
from branches.agents.context import EntityContext
from branches.agents.entries import AgentPrompt
from branches.agents.files import images_of
from branches.agents.internal import EntityCast
from branches.agents.medium import Medium
from branches.agents.naming import entity_id, run_id
from branches.agents.past import fold_episode
from branches.agents.workshop import Workshop
from branches.agents.workspace import Workspace
from journals import Entry, Record
from policies import Outcome


class SessionUnreadable(Exception):
    """A session holds what this program cannot read or go on with, so that nobody knows what has happened in it."""

    def __init__(self, session: str, reason: str) -> None:
        super().__init__(f"session {session!r} is left alone: {reason}")
        self.session, self.reason = session, reason


class Entity:
    """One entity in this process.

    `cast` is the call that its newest episode worked under, `crystal` the name of the one that it was forked for last.
    `outcomes` are those of the calls that its past code made, until that code was run again.
    """

    def __init__(self, session: str, shop: Workshop) -> None:
        self.session, self._shop = session, shop
        self.context = EntityContext()
        self.cast: EntityCast | None = None
        self.crystal: str | None = None
        self._workspace: Workspace | None = None
        self._outcomes: dict[str, Outcome] = {}
        self._configured: tuple[Cantrip, EntityCast] | None = None
        self._recalled: tuple[Cantrip, EntityCast, Cantrip] | None = None

    def __repr__(self) -> str:
        return f"<Entity of {self.session}, {self.context!r}>"

    @property
    def cantrip(self) -> Cantrip:
        """What it works under from its next episode on. Raises `SessionUnreadable`."""
        cantrip = self._shop.bound.get(self.session, self._shop.cantrip)
        if self.crystal is None:
            return cantrip
        if self.crystal not in cantrip.crystals:
            raise SessionUnreadable(self.session, f"it was forked for the crystal {self.crystal!r}, which is missing")
        return replace(cantrip, crystal=cantrip.crystals[self.crystal])

    @property
    def configured(self) -> EntityCast:
        """The call of its next episode, as the journal keeps it."""
        cantrip = self.cantrip
        if self._configured is None or self._configured[0] is not cantrip:
            self._configured = cantrip, cast_entry(cantrip, entity_id(self._shop.name, self.session))
        return self._configured[1]

    def under(self, cast: EntityCast) -> Cantrip:
        """The cantrip of an episode under this call. Raises `InvalidCantrip`, `SessionUnreadable`."""
        cantrip, known = self.cantrip, self._recalled
        if known is None or known[0] is not cantrip or known[1] is not cast:
            known = self._recalled = cantrip, cast, recall(cantrip, cast)
        return known[2]

    def fold(
        self,
        prompt: Record[AgentPrompt],
        records: list[Record[Entry]],
        *,
        through: int | None = None,
    ) -> None:
        """Take in a finished episode, or its turns up to `through`. Raises `SessionUnreadable`."""
        if self.cast is None:
            return
        workspace, intent, images = self._workspace_of(self.cast), prompt.entry.text, images_of(prompt.entry)
        past = fold_episode(self.context, self.cast, run_id(prompt.id), intent, records, workspace, through, images)
        if workspace is not None:
            self._outcomes |= past.outcomes

    async def enter(self, cast: EntityCast) -> Workspace | None:
        """Its sandbox where its medium runs code; one for all its episodes, as long as its medium is one.

        Raises `SessionUnreadable`.
        """
        if self._workspace is not None and self._workspace.medium != cast.medium:
            await self._workspace.close()
        return self._workspace_of(cast)

    def leave(self) -> None:
        """An episode is over."""
        if self._workspace is None or not self._workspace.has_past:
            self._outcomes = {}

    def recorded(self, call: str) -> Outcome | None:
        """The recorded outcome of a call that its past code made."""
        return self._outcomes.get(call)

    def medium(self, cast: EntityCast) -> Medium | None:
        """The medium in which it runs code, if it does. Raises `SessionUnreadable`."""
        if cast.medium == "tools":
            return None
        try:
            return self._shop.medium(cast.medium)
        except LookupError as missing:
            raise SessionUnreadable(self.session, str(missing)) from missing

    async def rest(self) -> None:
        """Let go of its sandbox until there is work again; its variables are kept here."""
        if self._workspace is not None:
            await self._workspace.rest()

    async def close(self) -> None:
        """Let go of its sandbox for good; it is made again from the journal when it is needed."""
        if self._workspace is not None:
            await self._workspace.close()

    def _workspace_of(self, cast: EntityCast) -> Workspace | None:
        medium = self.medium(cast)
        if medium is None:
            return None
        circle = self.under(cast).circle
        if self._workspace is None or self._workspace.medium != cast.medium:
            self._workspace = Workspace(medium, circle)
        self._workspace.circle = circle
        return self._workspace
