"""The providers' crystals against the loopback server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from branches.agents.permission import VARIABLE
from coven.testing.providers import ProviderServer
from tests.leaves.crystals.providers import PROVIDERS, Provider


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ProviderServer]:
    """The loopback provider: no real model, so requests to it are allowed."""
    monkeypatch.delenv(VARIABLE, raising=False)
    async with ProviderServer() as running:
        yield running


@pytest.fixture(params=PROVIDERS, ids=lambda each: each.name)
def provider(request: pytest.FixtureRequest) -> Provider:
    return request.param


@pytest.fixture(params=[False, True], ids=["request", "stream"])
def streamed(request: pytest.FixtureRequest) -> bool:
    """Whether somebody hears the pieces of an answer, so that it streams."""
    return request.param
