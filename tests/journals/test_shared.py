"""All tails of a stream over one reading."""

from __future__ import annotations

import pytest

from journals import StoreUnavailable
from journals._jetstream._shared import _Listener
from journals._log import Stored


def stored(position: int) -> Stored:
    return Stored(position, "in.s", {}, b"{}", 0.0)


async def test_a_tail_whose_reading_has_ended_takes_nothing_of_the_next_one() -> None:
    listener = _Listener()
    listener.give([stored(1)])
    listener.error = StoreUnavailable("the server is away")
    listener.give([stored(3)])  # what another reading, which somebody has begun since, gives behind a gap
    assert [each.position for each in await listener.take()] == [1]
    with pytest.raises(StoreUnavailable):
        await listener.take()
