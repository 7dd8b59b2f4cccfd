from __future__ import annotations

import asyncio

import pytest

from tests.leaves.chats.slack.stage import Stage, staged


@pytest.fixture
async def stage():
    async with staged() as made:
        yield made


@pytest.fixture
async def echoing(stage: Stage):
    """The stage, with an agent that repeats what it is told."""
    task = asyncio.create_task(stage.echo())
    yield stage
    task.cancel()
