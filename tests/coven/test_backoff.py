"""When a failed service is tried again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coven.backoff import Backoff

times = st.lists(st.floats(0, 1e6), max_size=20).map(sorted)


def test_the_delay_doubles_up_to_the_longest():
    backoff = Backoff(first=1, factor=2, longest=5, limit=10, window=100)
    failures = [float(number) for number in range(6)]
    assert [backoff.delay(failures[: count + 1], now=6) for count in range(6)] == [1, 2, 4, 5, 5, 5]


def test_it_gives_up_when_more_than_the_limit_fall_into_the_window():
    backoff = Backoff(limit=2, window=10)
    assert backoff.delay([0, 1], now=2) is not None
    assert backoff.delay([0, 1, 2], now=2) is None
    assert backoff.delay([0, 1, 2], now=10.5) is not None


@given(times, st.floats(0, 1e6))
def test_old_failures_never_count(failures, now):
    backoff = Backoff()
    recent = backoff.recent(failures, now)
    assert all(now - failure < backoff.window for failure in recent)
    assert backoff.delay(failures, now) == backoff.delay(recent, now)


@given(times, st.floats(0, 1e6))
def test_the_delay_stays_between_its_bounds(failures, now):
    backoff = Backoff()
    delay = backoff.delay(failures, now)
    assert delay is None or backoff.first <= delay <= backoff.longest
