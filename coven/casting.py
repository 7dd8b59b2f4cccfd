"""Casting a cantrip from Python: one episode with `cast`, a lasting entity with `invoke`.

There is no second path: a cast runs the Agents service, and where gates are served by Spellcasting its service and the
covenant between them, over the store that it is given; the memory store if none.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from msgspec.structs import replace

from branches.agents import AGENTS
from branches.agents.cantrip import Cantrip
from branches.agents.forking import fork
from branches.agents.loom import Loom, rewarded
from branches.agents.medium import Medium, no_medium
from branches.agents.service import AgentsService
from branches.catalogue import LeafKind
from branches.service import Service, first_error
from branches.spellcasting import Substrate
from coven.assembly import chunk_journal
from coven.conversation import Conversation, Ended, InvalidCast
from journals import Journal, MemoryStore, Store, random_id
from policies import Clock, SystemClock

__all__ = ["Ended", "Entity", "Hearth", "InvalidCast", "cast", "invoke", "kindle"]

NAME = "agents"


class Entity(Conversation):
    """A living entity: several intents in one conversation, each an episode of its own. Made by `invoke` (ENTITY-1)."""

    def __init__(self, session: str, hearth: Hearth, sender: str, cantrip: Cantrip) -> None:
        super().__init__(session, hearth.journal, hearth.serving, sender, chunks=hearth.chunks)
        self._hearth, self._cantrip = hearth, cantrip

    async def loom(self) -> Loom:
        """Every turn of this session, of its children, and of those that it was forked from.

        Turns that nobody has rewarded have the reward that the circle's function gives, if it has one.
        """
        loom, shape = await super().loom(), self._cantrip.circle.reward
        return loom if shape is None else rewarded(loom, shape)

    async def fork(
        self, turn: str | int, *, session: str | None = None, crystal: str | None = None, cantrip: Cantrip | None = None
    ) -> Entity:
        """Another entity that goes on from a turn of this one, by its id or its number from 0; this one stays as it is.

        `crystal` names another of the cantrip's crystals, which is recorded; a whole `cantrip` of its own is not, and
        is to be given again where the fork's `session` is invoked later. Raises `NoSuchTurn`.
        """
        name = session or f"fork-{random_id()}"
        await fork(self.journal, self.session, turn, name, crystal=crystal)
        return self._hearth.entity(name, self._sender, cantrip)


async def cast(cantrip: Cantrip, intent: str, **settings: Any) -> Ended:
    """Cast a cantrip on an intent: one entity, one episode (CANTRIP-2). `settings` are those of `invoke`.

        ended = await cast(cantrip, "Count the files.")
        print(ended.answer)

    Raises `InvalidCast` without an intent.
    """
    if not isinstance(intent, str) or not intent.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidCast("intent is required: say what the entity is to do")
    async with invoke(cantrip, **settings) as entity:
        return replace(await entity.ask(intent), loom=await entity.loom())


@asynccontextmanager
async def invoke(
    cantrip: Cantrip,
    *,
    store: Store | None = None,
    session: str | None = None,
    substrates: Mapping[str, Substrate] | None = None,
    clock: Clock | None = None,
    tool_timeout_s: float = 60.0,
    stream: bool = False,
    sender: str = "caster",
) -> AsyncGenerator[Entity]:
    """A lasting entity (D-001), alive while the block runs. With the `session` of an earlier one it goes on.

    `substrates` cast the spells among the circle's gates, by name: `{"fs": Filesystem(...)}`, also one of yours that
    says its `spells`. With `stream` the
    text of its `events` comes in pieces, as far as the crystal gives it so.
    """
    name = session or f"cast-{random_id()}"
    settings: dict[str, Any] = {"substrates": substrates, "clock": clock, "tool_timeout_s": tool_timeout_s}
    settings["stream"] = stream
    async with kindle(cantrip, store, sessions=[name], **settings) as hearth:
        yield hearth.entity(name, sender)


class Hearth:
    """The services that a cantrip needs, running over a store; makes the entities that live there."""

    def __init__(
        self,
        journal: Journal,
        chunks: Journal | None,
        agents: AgentsService,
        serving: asyncio.Task[None],
        sessions: set[str],
        cantrip: Cantrip,
    ) -> None:
        self.journal, self.chunks, self.serving = journal, chunks, serving
        self._agents, self._sessions, self._cantrip = agents, sessions, cantrip

    def __repr__(self) -> str:
        return f"<Hearth of {len(self._sessions)} entities>"

    def entity(self, session: str, sender: str = "caster", cantrip: Cantrip | None = None) -> Entity:
        """The entity of a session, under a cantrip of its own if one is given."""
        if cantrip is not None:
            self._agents.bind(session, cantrip)
        self._sessions.add(session)
        return Entity(session, self, sender, cantrip or self._cantrip)


@asynccontextmanager
async def kindle(
    cantrip: Cantrip,
    store: Store | None = None,
    *,
    sessions: Iterable[str] = (),
    substrates: Mapping[str, Substrate] | None = None,
    clock: Clock | None = None,
    tool_timeout_s: float = 60.0,
    stream: bool = False,
) -> AsyncGenerator[Hearth]:
    """Run the services that a cantrip needs while the block runs. They serve the sessions of this hearth alone.

    What was cut off in `sessions` goes on at once, before anybody asks. Raises `InvalidCast` for a spell among the
    gates that nobody casts.
    """
    if store is None:
        _know_who_casts(cantrip, substrates or {})
    store = store or MemoryStore()
    served = set(sessions)
    async with AsyncExitStack() as closing:
        journal = await store.open(NAME, AGENTS.registry())
        chunks = None
        if stream:
            chunks = await store.open(chunk_journal(NAME), AGENTS.registry(short_lived=True), short_lived=True)
        owner = random_id()
        agents = AgentsService(
            NAME,
            journal,
            cantrip,
            owner=owner,
            tool_timeout_s=tool_timeout_s,
            clock=clock or SystemClock(),
            chunk_journal=chunks,
            medium=_mediums(closing),
            serves=served.__contains__,
            all_matter=True,
        )
        services: list[Service] = [agents]
        if substrates:
            services += await _spellcasting(store, journal, substrates, owner)
        serving = asyncio.create_task(_serve(services))
        try:
            yield Hearth(journal, chunks, agents, serving, served, cantrip)
        finally:
            serving.cancel()
            await asyncio.wait([serving])


def _know_who_casts(cantrip: Cantrip, substrates: Mapping[str, Substrate]) -> None:
    """In the memory of this process nobody else casts a spell: without its substrate each call would be waited for."""
    for gate in cantrip.circle.outward:
        substrate = gate.name.partition(".")[0]
        if substrate != gate.name and substrate not in substrates:
            raise InvalidCast(f"nobody casts {gate.name}: give its substrate, `substrates={{{substrate!r}: …}}`")


async def _serve(services: list[Service]) -> None:
    try:
        async with asyncio.TaskGroup() as tasks:
            for service in services:
                tasks.create_task(service.run(lambda: None))
    except BaseExceptionGroup as group:
        raise first_error(group) from None


async def _spellcasting(
    store: Store, agents: Journal, substrates: Mapping[str, Substrate], owner: str
) -> list[Service]:
    """Spellcasting over these substrates, and the covenant that brings calls there and answers home."""
    from branches.spellcasting import SPELLCASTING
    from branches.spellcasting.service import SpellcastingService
    from coven.lifecycle import SYSTEM_JOURNAL, system_registry
    from covenants.dead_letters import JOURNAL, dead_letter_registry
    from covenants.router import Router
    from covenants.spells import spell_routes
    from leaves.catalogue import CATALOGUE

    spellcasting = await store.open("spellcasting", SPELLCASTING.registry())
    own = [spell for substrate in substrates.values() for spell in getattr(substrate, "spells", ())]
    spells = {**CATALOGUE.spells(), **{spell.name(): spell for spell in own}}
    service = SpellcastingService("spellcasting", spellcasting, substrates, spells, owner=owner)
    router = Router(
        spell_routes(NAME, "spellcasting", spells),
        {NAME: agents, "spellcasting": spellcasting},
        short_lived={},
        system=await store.open(SYSTEM_JOURNAL, system_registry()),
        dead_letters=await store.open(JOURNAL, dead_letter_registry()),
        owner=owner,
    )
    return [service, router]


def _mediums(closing: AsyncExitStack) -> Callable[[str], Medium]:
    """The mediums by name, each made when it is first used."""
    made: dict[str, Medium] = {}

    def medium(name: str) -> Medium:
        from leaves.catalogue import CATALOGUE

        leaves = CATALOGUE.of(LeafKind.MEDIUM)
        if name not in made:
            if name not in leaves:
                return no_medium(name)
            made[name] = leaves[name].load()()
            closing.push_async_callback(made[name].close)
        return made[name]

    return medium
