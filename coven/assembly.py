"""Making services of a configuration: journals are opened, leaves loaded, and nothing is started."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AsyncExitStack
from typing import Any, cast

import msgspec

from branches.agents.cantrip import configure
from branches.agents.crystal import Crystal
from branches.agents.medium import Medium, no_medium
from branches.agents.options import AgentsOptions
from branches.catalogue import Catalogue, LeafKind
from branches.chat.entries import ChatForked
from branches.chat.leaf import ChatLeaf, StreamingLeaf
from branches.service import Service
from branches.spellcasting import Substrate
from coven.circles import gate_of
from coven.configuration import COVENANT
from coven.contained import contain
from coven.crystals import choose_crystal
from coven.lifecycle import SYSTEM_JOURNAL, system_registry
from covenants import Branch, Config, Leaf
from covenants.dead_letters import JOURNAL as DEAD_LETTERS
from covenants.dead_letters import dead_letter_registry
from journals import Journal, Store


class Assembly:
    """The parts of one host, over one store.

    `owner` names this process in claims; `tell` says something to the person who started it. Leaves that hold
    something are closed with the exit stack `closing`. With `sessions`, agents answer in these and leave others alone.
    The chunks of instances in `watched` are written in any case.
    """

    def __init__(
        self,
        config: Config,
        catalogue: Catalogue,
        store: Store,
        *,
        owner: str,
        environ: Mapping[str, str],
        closing: AsyncExitStack,
        tell: Callable[[str], None],
        sessions: Collection[str] | None = None,
        watched: Collection[str] = (),
    ) -> None:
        self.config, self.owner = config, owner
        self._watched = frozenset(watched)
        self._serves: Callable[[str], bool] = _every if sessions is None else sessions.__contains__
        self._catalogue, self._store, self._environ = catalogue, store, environ
        self._closing, self._tell = closing, tell
        self.crystals: dict[str, str] = {}
        self.chats: dict[str, ChatLeaf] = {}
        self._mediums: dict[str, Medium] = {}

    def __repr__(self) -> str:
        return f"<Assembly {self.config.coven} for {self.owner}>"

    async def system_journal(self) -> Journal:
        """Where lifecycles and the covenant in force are recorded."""
        return await self._store.open(SYSTEM_JOURNAL, system_registry())

    async def dead_letters(self) -> Journal:
        """Where what could not be routed is recorded."""
        return await self._store.open(DEAD_LETTERS, dead_letter_registry())

    async def service(self, name: str) -> Service:
        """The service of a branch instance, or of the covenant."""
        if name == COVENANT:
            return await self._covenant()
        branch = self.config.branches[name]
        make = {"chat": self._chat, "agents": self._agents, "spellcasting": self._spellcasting}[branch.type]
        return await make(branch)

    async def _chat(self, branch: Branch) -> Service:
        from branches.chat.service import ChatService

        (leaf,) = branch.leaves.values()
        chat = cast("ChatLeaf", leaf.info.make(self._options(leaf), branch.name))
        self.chats[branch.name] = chat
        chunks = await self._chunks(branch) if isinstance(chat, StreamingLeaf) else None
        return ChatService(
            branch.name,
            await self._journal(branch),
            chat,
            owner=self.owner,
            chunk_journal=chunks,
            forks_routed=any(
                route.source == (branch.name, branch.manifest.get(ChatForked.kind())) and route.targets
                for route in self.config.routes
            ),
        )

    async def _agents(self, branch: Branch) -> Service:
        from branches.agents.service import AgentsService

        options = cast("AgentsOptions", branch.options)
        if branch.leaves:
            (leaf,) = branch.leaves.values()
        else:
            choice = await choose_crystal(self._catalogue, self._environ)
            leaf = Leaf(choice.leaf, choice.options)
            if choice.notice is not None:
                self._tell(choice.notice)
        self.crystals[branch.name] = leaf.info.name
        crystal = self._crystal(leaf)
        others = {name: self._crystal(other) for name, other in branch.crystals.items()}
        spells = [gate_of(spell) for served in self.config.of_type("spellcasting") for spell in served.spells.values()]
        return AgentsService(
            branch.name,
            await self._journal(branch),
            configure(crystal, options, spells, crystals=others),
            owner=self.owner,
            tool_timeout_s=options.tool_timeout_s,
            chunk_journal=await self._chunks(branch),
            medium=self._medium,
            serves=self._serves,
        )

    def _crystal(self, leaf: Leaf) -> Crystal:
        """The crystal of a leaf, closed with the host."""
        crystal = cast("Crystal", leaf.info.make(self._options(leaf)))
        if close := getattr(crystal, "close", None):
            self._closing.push_async_callback(close)
        return contain(crystal, leaf.info.name) if leaf.info.users else crystal  # a bug of ours is ours

    def _medium(self, name: str) -> Medium:
        """The medium of this name, made when it is first used and closed with the host."""
        if name not in self._mediums:
            leaves = self._catalogue.of(LeafKind.MEDIUM)
            if name not in leaves:
                return no_medium(name)
            medium = self._mediums[name] = cast("Medium", leaves[name].load()())
            self._closing.push_async_callback(medium.close)
        return self._mediums[name]

    async def _spellcasting(self, branch: Branch) -> Service:
        from branches.spellcasting.service import SpellcastingService

        substrates: dict[str, Substrate] = {}
        for name, leaf in branch.leaves.items():
            substrate = cast("Substrate", leaf.info.make(self._options(leaf)))
            self._closing.push_async_callback(substrate.close)
            substrates[name] = substrate
        spells = {**self._catalogue.spells(), **branch.spells}
        return SpellcastingService(branch.name, await self._journal(branch), substrates, spells, owner=self.owner)

    async def _covenant(self) -> Service:
        from covenants.router import Router

        branches = self.config.branches
        short_lived = {name: await self._chunks(branch) for name, branch in branches.items()}
        return Router(
            self.config.routes,
            {name: await self._journal(branch) for name, branch in branches.items()},
            short_lived={name: journal for name, journal in short_lived.items() if journal is not None},
            system=await self.system_journal(),
            dead_letters=await self.dead_letters(),
            owner=self.owner,
        )

    async def journal_of(self, instance: str) -> Journal:
        """The journal of a branch instance."""
        return await self._journal(self.config.branches[instance])

    async def _journal(self, branch: Branch) -> Journal:
        return await self._store.open(branch.name, branch.manifest.registry())

    async def _chunks(self, branch: Branch) -> Journal | None:
        """The short-lived journal beside an instance's own, where a route or somebody watching takes what is in it."""
        ends = {
            end.instance
            for route in self.config.routes
            if route.short_lived and route.targets
            for end in (route.source, *route.targets)
        }
        if branch.name not in ends | self._watched:
            return None
        registry = branch.manifest.registry(short_lived=True)
        return await self._store.open(chunk_journal(branch.name), registry, short_lived=True)

    def _options(self, leaf: Leaf) -> Any:
        """The options of a leaf, its paths relative to the configuration's."""
        given = {name: getattr(leaf.options, name) for name in (*leaf.info.folders, *leaf.info.files)}
        paths = {name: str(self.config.base / path) for name, path in given.items() if path is not None}
        return msgspec.structs.replace(leaf.options, **paths) if leaf.options is not None else None


def chunk_journal(instance: str) -> str:
    """The name of the short-lived journal beside an instance's own."""
    return f"{instance}-chunks"


def _every(session: str) -> bool:
    return True
