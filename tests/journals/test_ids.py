"""Ids that derive from what they name."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from journals import DerivedIds, derive_id


@given(st.lists(st.text() | st.integers(), min_size=1, max_size=4), st.integers(), st.integers())
def test_ids_of_one_series_are_those_derived_from_all_their_parts(
    parts: list[str | int], first: int, second: int
) -> None:
    ids = DerivedIds(*parts)
    assert ids(first, second) == derive_id(*parts, first, second)
    assert ids(second, first) == derive_id(*parts, second, first)
