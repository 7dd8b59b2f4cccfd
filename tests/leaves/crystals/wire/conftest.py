"""Each provider's crystal on a loopback server that answers by a script.

What is tried here only such a server can show: what was sent, an answer to the letter, a connection that breaks.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from coven.testing.providers import ProviderServer
from leaves.crystals._remote import RemoteCrystal
from tests.leaves.crystals.providers import Provider


@pytest.fixture
async def crystal(provider: Provider, server: ProviderServer) -> AsyncIterator[RemoteCrystal]:
    made = provider.make(server.url)
    yield made
    await made.close()
