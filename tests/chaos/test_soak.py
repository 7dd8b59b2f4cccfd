"""Storms over a coven under load: whatever falls upon it, everything asked has one answer, and nothing is done twice.

Each service is a process of its own. From one seed they are killed, stand still, have rivals and lose the server, while
people ask for several things at once; what must be true afterwards is in `soak/invariants.py`. The short form is two
small storms, `pytest -m chaos` a longer one for each of `SOAK_ROUNDS` seeds from `SOAK_SEED` on.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from tests.chaos.soak.run import soaked

_ROUNDS = int(os.environ.get("SOAK_ROUNDS", "8"))
_FIRST = int(os.environ.get("SOAK_SEED", "1000"))


@pytest.mark.parametrize("seed", [1, 2])
async def test_a_small_storm(tmp_path: Path, seed: int) -> None:
    await soaked(tmp_path / "coven", seed, blows=6, longest=0.5)


@pytest.mark.chaos
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(_FIRST, _FIRST + _ROUNDS))
async def test_a_storm(tmp_path: Path, seed: int) -> None:
    random = Random(f"size {seed}")
    blows, longest = random.choice((8, 15, 30, 60)), random.choice((1.0, 3.0, 6.0, 14.0))
    await soaked(tmp_path / "coven", seed, blows=blows, longest=longest)
