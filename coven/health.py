"""How a coven is: its surroundings examined, and what its services last said of themselves."""

from __future__ import annotations

import os
from pathlib import Path

from coven.configuration import configure, services_of
from coven.lifecycle import SYSTEM_JOURNAL, ServiceChanged, State
from coven.link import FOLDER, sign_in
from coven.shelf import Shelf, shelf_of
from journals import Finding
from journals import examine as examine_server


async def examine(path: Path, nats: str | None) -> list[Finding]:
    """Look at everything that the configuration at a path stands on. Raises `ConfigError`."""
    config = configure(path, os.environ, nats=nats, run=False).config
    folder = config.base / FOLDER
    leaves = [leaf for branch in config.branches.values() for leaf in branch.leaves.values()]
    secrets = sorted({secret for leaf in leaves for secret in leaf.info.secrets})
    if config.nats.embedded:
        return await examine_server(folder=folder, coven=config.coven, secrets=secrets)
    signed = sign_in(config)
    return await examine_server(
        signed.url, token=signed.token, credentials=signed.credentials, coven=config.coven, secrets=secrets
    )


async def service_state(path: Path, nats: str | None, service: str) -> State:
    """The state that a service last recorded. Raises `UnknownService`, `ConfigError` and what connecting raises."""
    async with shelf_of(path, nats) as shelf:
        services_of(shelf.config, (service,))
        return await _last_state(shelf, service)


async def _last_state(shelf: Shelf, service: str) -> State:
    journal = await shelf.open(SYSTEM_JOURNAL)
    record = await journal.last(session=service, kinds=[ServiceChanged.kind()])
    return record.entry.state if record is not None and isinstance(record.entry, ServiceChanged) else State.STOPPED
