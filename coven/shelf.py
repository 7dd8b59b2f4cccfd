"""The journals of a coven, to look at from the command line, whether the coven runs or not."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from coven.assembly import chunk_journal
from coven.configuration import configure
from coven.lifecycle import SYSTEM_JOURNAL, system_registry
from coven.link import Join, linked
from covenants import Config
from covenants.dead_letters import JOURNAL as DEAD_LETTERS
from covenants.dead_letters import dead_letter_registry
from journals import EntryRegistry, Journal, Store


class UnknownJournal(Exception):
    """A journal that this coven does not have."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(f"there is no journal {name!r}; this coven has {', '.join(known)}")
        self.name, self.known = name, known


class Shelf:
    """All journals of a configuration: one a branch instance, the dead letters, and the system's own."""

    def __init__(self, config: Config, store: Store) -> None:
        self.config, self._store = config, store
        own: dict[str, EntryRegistry] = {name: branch.manifest.registry() for name, branch in config.branches.items()}
        self._registries = {**own, DEAD_LETTERS: dead_letter_registry(), SYSTEM_JOURNAL: system_registry()}
        self._chunks = {
            chunk_journal(name): branch.manifest.registry(short_lived=True) for name, branch in config.branches.items()
        }

    def __repr__(self) -> str:
        return f"<Shelf {', '.join(self.names)}>"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the journals that keep everything."""
        return tuple(self._registries)

    def registry(self, name: str) -> EntryRegistry:
        """The kinds of a journal. Raises `UnknownJournal`."""
        registry = self._registries.get(name) or self._chunks.get(name)
        if registry is None:
            raise UnknownJournal(name, self.names)
        return registry

    async def open(self, name: str) -> Journal:
        """The journal of this name, or a branch's short-lived one (`chat-chunks`). Raises `UnknownJournal`."""
        return await self._store.open(name, self.registry(name), short_lived=name in self._chunks)

    async def branches(self) -> Mapping[str, Journal]:
        """The journals of all branch instances by name."""
        return {name: await self.open(name) for name in self.config.branches}


@asynccontextmanager
async def shelf_of(path: Path, nats: str | None, join: Join = Join.ALLOWED) -> AsyncGenerator[Shelf]:
    """The journals of the configuration at a path. An embedded server that does not run is started meanwhile.

    Raises `ConfigError` and what connecting raises.
    """
    config = configure(path, os.environ, nats=nats, run=False).config
    async with linked(config, join) as link:
        yield Shelf(config, link.store)
