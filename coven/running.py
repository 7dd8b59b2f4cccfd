"""`coven run`: everything from the path of a configuration to an exit code."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import structlog

from coven.configuration import Configured, configure
from coven.host import Host, first_of
from coven.link import Join, linked
from coven.signals import StopSignals
from coven.terminal import tell

_log: Any = structlog.get_logger("coven.host")


def run(path: Path, *, only: Collection[str], nats: str | None, environ: Mapping[str, str] = os.environ) -> None:
    """Run the coven, or those of its services, until it is stopped or its outside is finished.

    Raises `ConfigError`, `UnknownService`, `JournalError`, `ServiceFailed`, `TakenOver`, `Unanswerable`.
    """
    configured = configure(path, environ, nats=nats, only=only)
    for problem in configured.warnings:
        tell(str(problem))
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(configured, only, environ))


async def _serve(configured: Configured, only: Collection[str], environ: Mapping[str, str]) -> None:
    config = configured.config
    task = asyncio.current_task()
    assert task is not None
    with StopSignals(task) as signals:
        try:
            async with linked(config, Join.ALLOWED if only else Join.NEVER) as link:
                host = Host(config, link.store, only=only, environ=environ, tell=tell)

                def ready() -> None:
                    banner = f"{host.describe()} · {link.where}{' · /help' if host.interactive else ''}"
                    if host.piped:
                        _log.info("running", what=banner)
                    else:
                        tell(banner)

                await first_of(host.run(ready, signals.stopping), link.watch())
        except asyncio.CancelledError:
            if not signals.asked:
                raise


def loop_factory() -> Callable[[], Any] | None:
    """uvloop's loop where there is one: a tool round trip takes half the time with it."""
    if sys.platform == "win32":
        return None
    import uvloop

    return uvloop.new_event_loop
