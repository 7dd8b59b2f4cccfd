"""The way in for requests from outside: whatever the protocol, an intent becomes a prompt in the Agents journal.

Services that another process runs answer from there; those that nobody runs are started here, for as long as the
entrance is open.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager

from branches.agents import AGENTS
from coven.assembly import chunk_journal
from coven.conversation import Conversation
from coven.elsewhere import running_elsewhere
from coven.host import Host, first_of, this_host
from coven.keeping import Keeping, parts_of
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
    shared: str | None = None,
    watch: bool = False,
) -> AsyncGenerator[Entrance]:
    """Open a coven for requests; `origin` is the protocol's name in the journals.

    With `sessions`, agents that are started here answer in these and leave others alone; `shared` is the one of them
    whose name others may know. With `watch` they write text in pieces while it comes, whatever the covenant does with
    those. What another process runs is left to it; when it leaves, this one goes on. Raises what connecting and
    starting raise, and `CannotCast` for a changed recipe whose agents run elsewhere.
    """
    async with _store(recipe) as (store, link, watching):
        agents = {branch.name for branch in recipe.config.of_type("agents")} if sessions is not None else set[str]()
        parts = parts_of(recipe.services, agents, shared)
        elsewhere = await running_elsewhere(store, [key for part in parts for key in part.keys])
        if recipe.changed and recipe.agents in elsewhere:
            raise CannotCast(
                f"{recipe.agents} runs in another process ({elsewhere[recipe.agents]}) with the crystal and the medium "
                "of its coven.yaml; ask without --crystal and --medium, or stop it first"
            )
        hosts: list[Host] = []

        async def run(names: Sequence[str], ready: Callable[[], None]) -> None:
            watched = {recipe.agents} if watch else set[str]()
            host = Host(
                recipe.config, store, only=names, environ=environ, tell=tell, sessions=sessions, watched=watched
            )
            hosts.append(host)
            await host.run(ready)

        keeping = Keeping(store, this_host(), run)
        work = keeping.keep(parts)
        serving = asyncio.create_task(work if watching is None else first_of(work, watching))
        try:
            starting = asyncio.create_task(keeping.ready.wait())
            await asyncio.wait([serving, starting], return_when=asyncio.FIRST_COMPLETED)
            starting.cancel()
            if serving.done():
                await serving
            described = [hosts[0].describe() if hosts else recipe.config.coven, *([] if link is None else [link.where])]
            yield Entrance(
                recipe,
                await store.open(recipe.agents, AGENTS.registry()),
                serving,
                origin=origin,
                elsewhere=elsewhere,
                describe=" · ".join(described),
                chunks=await _chunks(recipe, store) if watch else None,
            )
        finally:
            serving.cancel()
            await asyncio.wait([serving])


async def _chunks(recipe: Recipe, store: Store) -> Journal:
    registry = AGENTS.registry(short_lived=True)
    return await store.open(chunk_journal(recipe.agents), registry, short_lived=True)


@asynccontextmanager
async def _store(recipe: Recipe) -> AsyncGenerator[tuple[Store, Link | None, asyncio.Task[None] | None]]:
    """The store, and the link to it with what watches it: from the first moment, since the server may go at any."""
    if recipe.bare:
        yield MemoryStore(), None, None
        return
    async with linked(recipe.config, Join.ALLOWED) as link:
        watching = asyncio.create_task(link.watch())
        try:
            yield link.store, link, watching
        finally:
            watching.cancel()
            await asyncio.wait([watching])
