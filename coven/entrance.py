"""The way in for requests from outside: whatever the protocol, an intent becomes a prompt in the Agents journal.

Services that another process runs answer from there; those that nobody runs are started here, for as long as the
entrance is open.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any

from branches.agents import AGENTS
from coven.assembly import chunk_journal
from coven.conversation import Conversation
from coven.elsewhere import running_elsewhere
from coven.host import Host, first_of
from coven.link import Join, Link, linked
from coven.recipe import CannotCast, Recipe
from journals import Journal, MemoryStore, Store


class Entrance:
    """An open coven: gives the conversation of a session with one agents instance.

    `serving` ends only by an error, which is then that of whoever waits for an answer. `chunks` is the journal of text
    in pieces, where somebody watches.
    """

    def __init__(
        self,
        recipe: Recipe,
        journal: Journal,
        serving: asyncio.Task[None],
        *,
        origin: str,
        elsewhere: Mapping[str, str],
        describe: str,
        chunks: Journal | None = None,
    ) -> None:
        self.recipe, self.journal, self.serving, self.origin = recipe, journal, serving, origin
        self.elsewhere, self.describe, self.chunks = elsewhere, describe, chunks

    def __repr__(self) -> str:
        return f"<Entrance of {self.origin} to {self.recipe.agents} of {self.recipe.config.coven}>"

    def conversation(self, session: str, sender: str) -> Conversation:
        """That of this session, new or not; `sender` is who asks."""
        return Conversation(session, self.journal, self.serving, sender, origin=self.origin, chunks=self.chunks)


@asynccontextmanager
async def entrance(
    recipe: Recipe,
    *,
    origin: str,
    tell: Callable[[str], None],
    environ: Mapping[str, str] = os.environ,
    sessions: Collection[str] | None = None,
    watch: bool = False,
) -> AsyncGenerator[Entrance]:
    """Open a coven for requests; `origin` is the protocol's name in the journals.

    With `sessions`, services that are started here answer in these and leave others alone; with `watch` they write
    text in pieces while it comes, whatever the covenant does with those. Raises what connecting and
    starting raise, and `CannotCast` for a changed recipe whose agents run elsewhere.
    """
    async with _store(recipe) as (store, link):
        elsewhere = await running_elsewhere(store, recipe.services)
        if recipe.changed and recipe.agents in elsewhere:
            raise CannotCast(
                f"{recipe.agents} runs in another process ({elsewhere[recipe.agents]}) with the crystal and the medium "
                "of its coven.yaml; ask without --crystal and --medium, or stop it first"
            )
        missing = [name for name in recipe.services if name not in elsewhere]
        ready = asyncio.Event()
        works: list[Any] = [] if link is None else [link.watch()]
        parts = [] if link is None else [link.where]
        host: Host | None = None
        if missing:
            watched = {recipe.agents} if watch else set[str]()
            host = Host(
                recipe.config, store, only=missing, environ=environ, tell=tell, sessions=sessions, watched=watched
            )
            works.append(host.run(ready.set))
        else:
            ready.set()
        serving = asyncio.create_task(_all(works))
        try:
            starting = asyncio.create_task(ready.wait())
            await asyncio.wait([serving, starting], return_when=asyncio.FIRST_COMPLETED)
            starting.cancel()
            if serving.done():
                await serving
            journal = await store.open(recipe.agents, AGENTS.registry())
            parts.insert(0, recipe.config.coven if host is None else host.describe())
            described = " · ".join(parts)
            yield Entrance(
                recipe,
                journal,
                serving,
                origin=origin,
                elsewhere=elsewhere,
                describe=described,
                chunks=await _chunks(recipe, store) if watch else None,
            )
        finally:
            serving.cancel()
            await asyncio.wait([serving])


async def _chunks(recipe: Recipe, store: Store) -> Journal:
    registry = AGENTS.registry(short_lived=True)
    return await store.open(chunk_journal(recipe.agents), registry, short_lived=True)


async def _all(works: list[Any]) -> None:
    """Both works, or the one there is; none of them ends by itself but with an error."""
    if len(works) == 2:
        await first_of(works[1], works[0])
    else:
        await works[0]


@asynccontextmanager
async def _store(recipe: Recipe) -> AsyncGenerator[tuple[Store, Link | None]]:
    if recipe.bare:
        yield MemoryStore(), None
        return
    async with linked(recipe.config, Join.ALLOWED) as link:
        yield link.store, link
