"""Which services of a coven another process runs at this moment, as far as its journal and this machine can tell."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterable
from contextlib import aclosing
from pathlib import Path

from coven.lifecycle import SYSTEM_JOURNAL, ServiceChanged, State, system_registry
from journals import Store

_CLOCKS_DIFFER_S = 2.0


async def running_elsewhere(store: Store, services: Iterable[str]) -> dict[str, str]:
    """Those of these services that run in another process, each with its host (`machine:pid:…`).

    A service is known by its name, or by whatever else it is recorded under. One that was killed said nothing of it; on
    this machine its process is looked for, on another one it is believed.
    """
    journal = await store.open(SYSTEM_JOURNAL, system_registry())
    found: dict[str, str] = {}
    for service in services:
        async with aclosing(journal.read(session=service, kinds=[ServiceChanged.kind()], reverse=True)) as records:
            async for record in records:
                if not isinstance(record.entry, ServiceChanged) or record.imported or is_ours(record.entry.host):
                    continue
                if record.entry.state is not State.STOPPED and _lives(record.entry.host, record.time):
                    found[service] = record.entry.host
                break
    return found


def is_ours(host: str) -> bool:
    """Whether a host is of this very process."""
    return host.startswith(f"{socket.gethostname()}:{os.getpid()}:")


def _lives(host: str, noted: float) -> bool:
    """Whether the process of a host may still be there, given when it was last heard of."""
    machine, _, rest = host.partition(":")
    pid, _, _ = rest.partition(":")
    if machine != socket.gethostname() or not pid.isdigit() or sys.platform == "win32":
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return _is_the_same(int(pid), noted)


def _is_the_same(pid: int, noted: float) -> bool:
    """Whether that process was there when it was heard of, and has not ended. Where `/proc` is missing, believed."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        boot = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
    except (OSError, StopIteration):
        return True
    fields = stat.rpartition(")")[2].split()
    state, ticks = fields[0], int(fields[19])
    began = int(boot.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")
    return state != "Z" and began <= noted + _CLOCKS_DIFFER_S
