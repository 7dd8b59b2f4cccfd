from __future__ import annotations

import pytest

from tests.leaves.chats.discord.stage import staged


@pytest.fixture
async def stage():
    async with staged() as made:
        yield made
