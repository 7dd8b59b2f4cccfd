"""Which durability a server really gives: what it says of itself where it does, else what its speed suggests."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlsplit

import msgspec

from journals._doctor._finding import Finding, ok, warning
from journals._doctor._probe import NoAnswer, Probe
from journals._doctor._scratch import Latencies
from journals._server._address import Durability

_MONITOR_PORT, _MONITOR_TIMEOUT = 8222, 0.5
_VARZ = "$SYS.REQ.SERVER.PING.VARZ"
_SYNCED_RATIO, _SYNCED_GAP_S = 1.5, 0.000_05

POWER = "an acknowledged append survives a power cut (profile `power`)"
PROCESS = "an acknowledged append survives `kill -9` of the server, and not a power cut (profile `process`)"
_MAKE_SURE = (
    "look for `sync_interval: always` in the server's configuration; or export `$SYS.REQ.SERVER.PING.VARZ` to this "
    "account, and the doctor reads it (docs/jetstream.md)"
)
_TO_POWER = (
    "set `sync_interval: always` in the server's `jetstream` block, or keep three replicas apart from each other"
)


class SyncConfig(msgspec.Struct, frozen=True):
    """How a server syncs to disk: at every write, or every so many nanoseconds."""

    sync_interval: int = 0
    sync_always: bool = False


class _JetStream(msgspec.Struct):
    config: SyncConfig | None = None


class _Varz(msgspec.Struct):
    server_id: str = ""
    jetstream: _JetStream | None = None


def of_embedded(durability: Durability) -> Finding:
    """What the embedded server was started with."""
    if durability == "power":
        return ok("durability", f"fsync before every acknowledgement: {POWER}")
    return ok("durability", f"as configured, {PROCESS}; `durability: power` is the safer default")


async def of_external(probe: Probe, url: str, server_id: str | None, latencies: Latencies | None) -> Finding:
    """Ask the server, then its monitoring port, and if neither tells judge by the measured times."""
    config = await _asked(probe) or await monitored(url, server_id)
    if config is not None:
        return _told(config)
    return judged(latencies)


def judged(latencies: Latencies | None) -> Finding:
    """What two medians suggest. Never more than a warning: a fast disk or a busy network may deceive."""
    unknown = "the server does not tell this account how often it syncs to disk"
    if latencies is None:
        return warning("durability", f"{unknown}, and it could not be measured", _MAKE_SURE)
    disk, memory = latencies.disk, latencies.memory
    times = f"an append takes {disk * 1e3:.2f} ms to disk and {memory * 1e3:.2f} ms to memory"
    if disk > memory * _SYNCED_RATIO and disk - memory > _SYNCED_GAP_S:
        return warning("durability", f"{unknown}; {times}: probably {POWER}, but this is no proof", _MAKE_SURE)
    return warning("durability", f"{unknown}; {times}, so it hardly waits for the disk: probably {PROCESS}", _MAKE_SURE)


def _told(config: SyncConfig) -> Finding:
    if config.sync_always:
        return ok("durability", f"the server says `sync_interval: always`: {POWER}")
    every = config.sync_interval / 1e9
    return warning("durability", f"the server says that it syncs every {every:g} s: {PROCESS}", _TO_POWER)


async def _asked(probe: Probe) -> SyncConfig | None:
    try:
        answer = await probe.ask_json(_VARZ)
    except NoAnswer:
        return None
    return _config_of(answer.get("data"), None)


async def monitored(url: str, server_id: str | None, port: int = _MONITOR_PORT) -> SyncConfig | None:
    """What the monitoring port of the same host says, believed only if it is the same server's."""
    host = urlsplit(url.split(",")[0]).hostname
    if host is None or server_id is None:
        return None
    try:
        async with asyncio.timeout(_MONITOR_TIMEOUT):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(f"GET /varz HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
                answer = await reader.read()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return None
    _, _, body = answer.partition(b"\r\n\r\n")
    try:
        return _config_of(msgspec.json.decode(body), server_id)
    except msgspec.DecodeError:
        return None


def _config_of(varz: Any, server_id: str | None) -> SyncConfig | None:
    try:
        told = msgspec.convert(varz, _Varz)
    except msgspec.ValidationError:
        return None
    if told.jetstream is None or (server_id is not None and told.server_id != server_id):
        return None
    return told.jetstream.config
