"""Whether types fit: never a false alarm, and nothing is called direct that could be refused."""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Literal

import msgspec
import msgspec.inspect as mi
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta

from covenants.fits import Fit, fit


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Point(msgspec.Struct):
    x: int


class Spot(msgspec.Struct):
    x: int


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (str, str, Fit.DIRECT),
        (str, Any, Fit.DIRECT),
        (Any, str, Fit.CONVERTED),
        (str, str | None, Fit.DIRECT),
        (str | None, str, Fit.NEVER),
        (str | None, str | None, Fit.DIRECT),
        (int, str, Fit.NEVER),
        (str, int, Fit.NEVER),
        (int, float, Fit.CONVERTED),
        (float, int, Fit.NEVER),
        (bool, int, Fit.NEVER),
        (str, datetime, Fit.CONVERTED),
        (datetime, str, Fit.CONVERTED),
        (str, Colour, Fit.CONVERTED),
        (Colour, str, Fit.CONVERTED),
        (Colour, int, Fit.NEVER),
        (str, Literal["a"], Fit.CONVERTED),
        (Literal["a"], str, Fit.DIRECT),
        (Literal["a"], Literal["a", "b"], Fit.DIRECT),
        (Literal["a", "b"], Literal["b", "c"], Fit.CONVERTED),
        (Literal["a"], Literal["b"], Fit.NEVER),
        (list[str], list[str], Fit.DIRECT),
        (list[str], list[Any], Fit.DIRECT),
        (list[str], tuple[str, ...], Fit.CONVERTED),
        (list[str], list[int], Fit.NEVER),
        (list[str], str, Fit.NEVER),
        (dict[str, str], dict[str, Any], Fit.DIRECT),
        (dict[str, Any], dict[str, str], Fit.CONVERTED),
        (dict[str, Any], Point, Fit.CONVERTED),
        (Point, Point, Fit.DIRECT),
        (Point, Spot, Fit.CONVERTED),
        (Point, str, Fit.NEVER),
        (int, Annotated[int, Meta(ge=1)], Fit.CONVERTED),
        (Annotated[int, Meta(ge=1)], int, Fit.DIRECT),
        (Annotated[str, Meta(description="a name")], str, Fit.DIRECT),
        (int | str, str, Fit.NEVER),
        (int, int | str, Fit.DIRECT),
    ],
)
def test_fit(source: Any, target: Any, expected: Fit) -> None:
    assert fit(mi.type_info(source), mi.type_info(target)) is expected


TYPES = st.recursive(
    st.sampled_from(
        [str, int, float, bool, None, Any, Literal["a", "b"], Annotated[int, Meta(ge=0)], datetime, Colour]
    ),
    lambda inner: st.one_of(
        inner.map(lambda item: list[item]),
        inner.map(lambda item: tuple[item, ...]),
        inner.map(lambda item: dict[str, item]),
    ),
    max_leaves=4,
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.floats(0, 1), st.sampled_from(["a", "c", "red", ""])),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from(["k"]), inner)),
    max_leaves=4,
)


def passes(value: Any, wanted: Any) -> bool:
    try:
        msgspec.convert(value, wanted)
    except msgspec.ValidationError:
        return False
    return True


@settings(deadline=None)
@given(TYPES, TYPES, VALUES)
def test_what_fits_directly_is_never_refused_and_what_never_fits_always_is(
    source: Any, target: Any, value: Any
) -> None:
    if not passes(value, source):
        return
    verdict = fit(mi.type_info(source), mi.type_info(target))
    written = msgspec.to_builtins(msgspec.convert(value, source))
    if verdict is Fit.DIRECT:
        assert passes(written, target)
    elif verdict is Fit.NEVER and not isinstance(value, list | dict):
        assert not passes(written, target)
