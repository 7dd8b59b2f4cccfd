"""The host: a configuration made to run over one store, supervised, and stopped in order."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import AsyncExitStack, redirect_stdout
from typing import Any

from branches.catalogue import Catalogue
from branches.service import first_error
from coven.assembly import Assembly
from coven.backoff import Backoff
from coven.clock import Clock
from coven.configuration import services_of
from coven.held_up import watched
from coven.lifecycle import ServiceChanged
from coven.supervisor import Supervisor
from coven.unanswerable import Lost, all_of, watch_letters
from covenants import Config
from journals import Journal, Store
from leaves.catalogue import CATALOGUE
from leaves.chats.console import Console

_log = logging.getLogger("coven.host")


class Host:
    """One process's share of a coven. `only` names its services as `services_of` takes them.

    With `sessions`, its agents answer in these and leave all others alone. Instances in `watched` write text in pieces
    while it comes, also where no route takes them.
    """

    def __init__(
        self,
        config: Config,
        store: Store,
        *,
        only: Collection[str] = (),
        environ: Mapping[str, str],
        tell: Callable[[str], None],
        catalogue: Catalogue = CATALOGUE,
        backoff: Backoff | None = None,
        clock: Clock | None = None,
        sessions: Collection[str] | None = None,
        watched: Collection[str] = (),
    ) -> None:
        """Nothing is opened yet. Raises `UnknownService`."""
        self.config, self.names = config, services_of(config, only)
        self.owner = this_host()
        self._store, self._environ, self._tell, self._catalogue = store, environ, tell, catalogue
        self._backoff, self._clock = backoff, clock
        self._sessions, self._watched = sessions, watched
        self._assembly: Assembly | None = None

    def __repr__(self) -> str:
        return f"<Host {self.config.coven}: {', '.join(self.names)}>"

    async def run(self, ready: Callable[[], None], stopping: Callable[[], None] = lambda: None) -> None:
        """Run until the outside is finished or this is cancelled; everything is stopped when it returns or raises.

        `stopping` is called when it begins to stop by itself.
        Raises `ServiceFailed`, `TakenOver`, `Unanswerable`, `InvalidCantrip` and what opening a journal raises.
        """
        async with AsyncExitStack() as closing:
            assembly = self._assembly = Assembly(
                self.config,
                self._catalogue,
                self._store,
                owner=self.owner,
                environ=self._environ,
                closing=closing,
                tell=self._tell,
                sessions=self._sessions,
                watched=self._watched,
            )
            system = await assembly.system_journal()
            agents = {branch.name for branch in self.config.of_type("agents")}
            untold = agents if self._sessions is not None else set[str]()  # nobody else is served by those
            services = [await assembly.service(name) for name in self.names]
            supervisor = Supervisor(
                services, host=self.owner, note=_noting(system, untold), backoff=self._backoff, clock=self._clock
            )
            if self._has_own_code:
                await closing.enter_async_context(watched(_say_held_up))
            if not self.piped:
                await supervisor.run(ready, stopping)
                return
            dead_letters = await assembly.dead_letters()
            lost = Lost(self.config, self._pipes, self._is_piped, assembly.journal_of)
            letters = watch_letters(dead_letters, self._is_piped, await dead_letters.end())
            watch = all_of([letters, *await lost.watches()])
            with redirect_stdout(sys.stderr):  # it has the answers alone, whatever a spell or a library prints
                await first_of(supervisor.run(ready, stopping), watch)

    @property
    def interactive(self) -> bool:
        """Whether a person talks to it on a terminal."""
        return any(console.interactive for console in self._consoles())

    @property
    def piped(self) -> bool:
        """Whether a program talks to it through a pipe."""
        return bool(self._pipes)

    @property
    def _has_own_code(self) -> bool:
        """Whether a leaf of the user's runs here."""
        branches = [self.config.branches[name] for name in self.names if name in self.config.branches]
        leaves = [leaf for branch in branches for leaf in (*branch.leaves.values(), *branch.crystals.values())]
        return any(leaf.info.users for leaf in leaves)

    @property
    def _pipes(self) -> dict[str, Console]:
        """The consoles that a program talks to, by the names of their instances."""
        chats = self._assembly.chats.items() if self._assembly is not None else ()
        return {name: chat for name, chat in chats if isinstance(chat, Console) and not chat.interactive}

    def _is_piped(self, session: str) -> bool:
        """Whether a session is one of a conversation that nobody can look after."""
        return any(console.is_here(session) for console in self._pipes.values())

    def _consoles(self) -> list[Console]:
        chats = self._assembly.chats.values() if self._assembly is not None else ()
        return [chat for chat in chats if isinstance(chat, Console)]

    def describe(self) -> str:
        """What runs, in a few words: the services unless they are all there are, the crystal, the workspace."""
        crystals = dict.fromkeys(self._assembly.crystals.values() if self._assembly is not None else ())
        whole = self.names == services_of(self.config)
        parts = [self.config.coven if whole else f"{self.config.coven}: {', '.join(self.names)}"]
        if crystals:
            parts.append(f"crystal {', '.join(crystals)}")
        folders = [
            str(getattr(leaf.options, folder))
            for branch in self.config.branches.values()
            if branch.name in self.names
            for leaf in branch.leaves.values()
            for folder in leaf.info.folders
        ]
        if folders:
            parts.append(f"workspace {', '.join(dict.fromkeys(folders))}")
        return " · ".join(parts)


def _say_held_up(place: str) -> None:
    _log.warning(
        "this process is held up by %s, and every conversation in it: what blocks goes into "
        "`await asyncio.to_thread(…)`",
        place,
    )


def this_host() -> str:
    """A name for a host of this process: the machine, the process, and what tells it from others of this process."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"


def _noting(system: Journal, untold: Collection[str]) -> Any:
    async def note(entry: ServiceChanged) -> None:
        if entry.service not in untold:
            await system.append(entry, session=entry.service)

    return note


async def first_of(work: Any, watch: Any) -> None:
    """Do the work, beside a watch that only ever raises; whatever is left is cancelled and awaited."""
    working, watching = asyncio.ensure_future(work), asyncio.ensure_future(watch)
    try:
        await asyncio.wait([working, watching], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (watching, working):
            task.cancel()
            await asyncio.wait([task])
    for task in (working, watching):
        if not task.cancelled() and (error := task.exception()) is not None:
            raise first_error(error)
