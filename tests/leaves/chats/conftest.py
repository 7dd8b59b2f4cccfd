from __future__ import annotations

import asyncio

import pytest

from tests.leaves.chats.stage import ChatStage


@pytest.fixture
async def echoing(stage: ChatStage):
    """The stage, with an agent that repeats what it is told."""
    task = asyncio.create_task(stage.echo())
    yield stage
    task.cancel()
