"""What every test of routes may use."""

from __future__ import annotations

import pytest

from journals import Store
from tests.covenants.world import World


@pytest.fixture
def world(store: Store) -> World:
    return World(store)
