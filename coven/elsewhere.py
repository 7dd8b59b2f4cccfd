"""Which services of a coven another process runs at this moment, as far as its journal and this machine can tell."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterable
from pathlib import Path

from coven.lifecycle import SYSTEM_JOURNAL, ServiceChanged, State, system_registry
from journals import Store

_GONE = (State.STOPPED, State.STOPPING)
_CLOCKS_DIFFER_S = 2.0


async def running_elsewhere(store: Store, services: Iterable[str]) -> dict[str, str]:
    """Those of these services that run in another process, each with its host (`machine:pid:…`).

    One that was killed said nothing of it; on this machine its process is looked for, on another one it is believed.
    """
    journal = await store.open(SYSTEM_JOURNAL, system_registry())
    found: dict[str, str] = {}
    for service in services:
        record = await journal.last(session=service, kinds=[ServiceChanged.kind()])
        if record is None or not isinstance(record.entry, ServiceChanged) or record.imported:
            continue
        if record.entry.state not in _GONE and _lives(record.entry.host, record.time):
            found[service] = record.entry.host
    return found


def _lives(host: str, noted: float) -> bool:
    """Whether the process of a host may still be there, given when it was last heard of."""
    machine, _, rest = host.partition(":")
    pid, _, _ = rest.partition(":")
    if machine != socket.gethostname() or not pid.isdigit() or sys.platform == "win32":
        return True
    if int(pid) == os.getpid():
        return False
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
