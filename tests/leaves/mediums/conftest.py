"""Both mediums, one after the other, and an entity in each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from branches.agents.medium import Medium
from leaves.mediums.javascript import JavaScript
from leaves.mediums.python import Python
from tests.leaves.mediums.entities import BRIEF, GATES, LIMITS, Circle, Entity


@pytest.fixture(params=["javascript", "python"])
async def medium(request: pytest.FixtureRequest) -> AsyncIterator[Medium]:
    made: Medium = JavaScript() if request.param == "javascript" else Python()
    yield made
    await made.close()


@pytest.fixture
def say(medium: Medium) -> Callable[[str, str], str]:
    """The same thing said in the medium's language: `say(javascript, python)`."""
    return lambda javascript, python: javascript if medium.name == "javascript" else python


@pytest.fixture
async def entity(medium: Medium) -> Entity:
    return Entity(await medium.open(GATES, LIMITS), Circle())


@pytest.fixture
async def brief(medium: Medium) -> Entity:
    """One whose code may not run for long; in Python that counts the time in which others have the machine too."""
    return Entity(await medium.open(GATES, BRIEF), Circle())


@pytest.fixture
async def javascript() -> AsyncIterator[Entity]:
    medium = JavaScript()
    yield Entity(await medium.open(GATES, BRIEF), Circle())
    await medium.close()


@pytest.fixture
async def python() -> AsyncIterator[Entity]:
    medium = Python()
    yield Entity(await medium.open(GATES, LIMITS), Circle())
    await medium.close()
