"""The suites: every case on every medium that it allows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from journals import EmbeddedServer, JetStreamStore, Store
from tests.conformance.case import Case
from tests.conformance.checks import mismatches
from tests.conformance.conftest import suites
from tests.conformance.loading import SuiteError, load
from tests.conformance.saying import NotSayable, mediums
from tests.conformance.stage import play
from tests.conformance.teeth import toothless


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "medium" not in metafunc.fixturenames:
        return
    runs: list[object] = []
    for path in suites(metafunc.config):
        try:
            cases = load(path)
        except SuiteError as error:
            raise pytest.UsageError(str(error)) from None
        for case in cases:
            name = f"{case.rule} {case.name}"
            if case.skipped is not None:
                skip = pytest.mark.skip(reason=case.skipped)
                runs.append(pytest.param(case, "none", id=f"{name}", marks=skip))
                continue
            try:
                allowed = mediums(case)
            except NotSayable as reason:
                raise pytest.UsageError(f"{case.where}: {reason}") from None
            runs += [pytest.param(case, medium, id=f"{name} ({medium})") for medium in allowed]
    metafunc.parametrize(("case", "medium"), runs)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[EmbeddedServer | None]:
    """The real server, where it was asked for."""
    if request.config.getoption("--store", "memory") == "memory":
        yield None
        return
    async with EmbeddedServer(tmp_path_factory.mktemp("nats"), durability="process") as running:
        yield running


@pytest_asyncio.fixture
async def over(server: EmbeddedServer | None, coven_name: str) -> AsyncIterator[Store | None]:
    """The real server's store, where it was asked for."""
    if server is None:
        yield None
        return
    async with await JetStreamStore.connect(server.url, coven_name, token=server.token) as store:
        yield store


async def test_case(case: Case, medium: str, tmp_path: Path, over: Store | None) -> None:
    story = await play(case, medium, tmp_path, over)
    found = mismatches(case, story)
    assert not found, "\n".join([f"{case.where}: {case.rule} {case.name} ({medium})", *found])
    assert not toothless(case, story), "these expectations could be others, and nobody would notice"
