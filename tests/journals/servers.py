"""Servers that somebody else has set up."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from journals._server._binary import find_binary
from journals._server._child import Child
from journals._server._log_file import LogFile
from journals._server._ports import choose_port


@asynccontextmanager
async def external(folder: Path, config: str) -> AsyncIterator[int]:
    """A server that knows nothing of Coven; `config` gets MONITOR filled in."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        child, port = await _started(folder, config, nothing)
    except BaseException:
        os.close(nothing)
        raise
    try:
        yield port
    finally:
        await child.stop(5)
        os.close(nothing)


async def _started(folder: Path, config: str, nothing: int) -> tuple[Child, int]:
    """The server and its port; it is started anew when somebody else was faster to take a port."""
    path = folder / "external.conf"
    for _ in range(5):
        port, monitor = choose_port(), choose_port()
        path.write_text(f'listen: "127.0.0.1:{port}"\n' + config.replace("MONITOR", f"127.0.0.1:{monitor}"))
        child = Child(find_binary(), path, LogFile(folder / "external.log"), nothing, lambda _: None)
        if await child.ready():
            return child, port
        failure = str(child.failure())
        if "address already in use" not in failure:
            break
    raise AssertionError(failure)


def accounts(permissions: str = "", export: str = "", sync: str = "2m") -> str:
    importing = '{service: {account: SYS, subject: "$SYS.REQ.SERVER.PING.VARZ"}}' if export else ""
    return f"""
        jetstream {{ store_dir: "js", sync_interval: {sync} }}
        system_account: SYS
        accounts {{
          SYS: {{ exports: [{export}] }}
          APP: {{
            jetstream: enabled
            users: [{{user: app, password: canary, permissions: {{{permissions}}}}}]
            imports: [{importing}]
          }}
        }}"""
