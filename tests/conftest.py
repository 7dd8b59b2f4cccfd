"""What every test may use: a real NATS server, and a store over it or in memory."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Generator
from itertools import count

import pytest
import pytest_asyncio
from hypothesis import settings

from journals import EmbeddedServer, JetStreamStore, MemoryStore, Store

# No test asks a real model, also in the processes that it starts.
os.environ["COVEN_FORBID_MODEL_REQUESTS"] = "1"
_numbers = count(1)

# Hundreds of processes are started that import the same modules: what one of them has compiled, the others find.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# No test asserts how long something takes.
settings.register_profile("coven", deadline=None)
settings.load_profile("coven")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def nats_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EmbeddedServer]:
    """One real server for the whole run. A test that breaks its server starts one of its own."""
    async with EmbeddedServer(tmp_path_factory.mktemp("nats"), durability="process") as server:
        yield server


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """The whole suite mostly waits for processes and disks, so it is run by more of them than there are cores."""
    is_whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    return min(8, 2 * (os.cpu_count() or 1)) if is_whole and not config.option.usepdb else 0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Half characters, which some tests put into logs, cannot be sent to the process that reports."""
    report = yield
    report.sections = [(name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections]
    return report


@pytest.fixture
def coven_name() -> str:
    """A coven of this test's own."""
    return f"test{next(_numbers)}"


@pytest.fixture(params=["memory", "jetstream"])
async def store(request: pytest.FixtureRequest, coven_name: str, nats_server: EmbeddedServer) -> AsyncIterator[Store]:
    """Both stores, one after the other."""
    if request.param == "memory":
        async with MemoryStore() as memory:
            yield memory
        return
    async with await JetStreamStore.connect(nats_server.url, coven_name, token=nats_server.token) as jetstream:
        yield jetstream
