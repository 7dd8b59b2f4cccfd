"""Each provider's crystal on the loopback server; and with `COVEN_LIVE=1` on the real service too, where it can be.

Both are asked the same, in plain words, and the same must hold of what they answer.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Generator
from functools import partial

import pytest

from branches.agents.permission import VARIABLE
from branches.agents.prices import Price
from coven.testing.providers import ProviderServer
from tests.leaves.crystals.contract.subject import Subject
from tests.leaves.crystals.obedient import Obedient
from tests.leaves.crystals.providers import PROVIDERS, Provider
from tests.leaves.crystals.till import DEAREST, Till, allowed

LIVE = "COVEN_LIVE"
_PLACES = [pytest.param((each, False), id=each.name) for each in PROVIDERS]
if os.environ.get(LIVE) == "1":
    _PLACES += [pytest.param((each, True), id=f"{each.name}-live") for each in PROVIDERS]


@pytest.fixture(scope="session")
def tills() -> dict[str, Till]:
    """What each provider may cost in this run."""
    return {each.name: Till(each.name, _price(each), allowed()) for each in PROVIDERS}


@pytest.fixture(params=_PLACES)
async def subject(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tills: dict[str, Till]
) -> AsyncIterator[Subject]:
    provider, live = request.param
    monkeypatch.delenv(VARIABLE, raising=False)
    if live:
        if not os.environ.get(provider.live):
            pytest.skip(f"{LIVE}=1, but {provider.live} is not set")
        subject = Subject(provider, partial(provider.make, None, **_model(provider)), None, tills[provider.name])
        yield subject
        await subject.crystal.close()
        return
    async with ProviderServer(answer=Obedient()) as server:
        free = Till(provider.name, Price(prompt=0, completion=0), 0)
        subject = Subject(provider, partial(provider.make, server.url, **provider.seeing), server, free)
        yield subject
        await subject.crystal.close()
        assert subject.refuses or server.refused == []


def _model(provider: Provider) -> dict[str, object]:
    """The options of the model that is asked: a cheap one, or the one that is named."""
    named = os.environ.get(f"{LIVE}_{provider.name.upper()}_MODEL")
    return {"model": named} if named else dict(provider.cheap)


def _price(provider: Provider) -> Price:
    """That of the model that is asked; one on a machine of one's own costs nothing."""
    return provider.price if not provider.cheap or _model(provider) == provider.cheap else DEAREST


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """No report shows a key, whatever a provider or an SDK has put into its errors."""
    report = yield
    keys = [key for each in PROVIDERS if each.live.endswith("_KEY") and (key := os.environ.get(each.live))]
    if any(key in report.longreprtext for key in keys):
        report.longrepr = _hidden(report.longreprtext, keys)
    report.sections = [(title, _hidden(content, keys)) for title, content in report.sections]
    return report


def _hidden(text: str, keys: list[str]) -> str:
    for key in keys:
        text = text.replace(key, "[key]")
    return text
