"""A spellcasting section names the substrates that are configured; every mistake in it has a place."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from branches.spellcasting.options import configured_substrates, spellcasting_options


class BellOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tones: tuple[str, ...]
    loud: bool = False


OPTIONS = spellcasting_options({"bell": BellOptions, "gong": None})


def test_what_is_named_is_configured_and_what_is_not_is_absent():
    section = msgspec.convert({"bell": {"tones": ["a"]}}, OPTIONS)
    assert configured_substrates(section) == {"bell": BellOptions(tones=("a",))}
    assert configured_substrates(msgspec.convert({}, OPTIONS)) == {}
    assert list(configured_substrates(msgspec.convert({"gong": {}}, OPTIONS))) == ["gong"]


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"bel": {}}, "unknown field `bel`"),
        ({"bell": {}}, r"missing required field `tones` - at `\$.bell`"),
        ({"bell": {"tones": ["a", 1]}}, r"Expected `str`, got `int` - at `\$.bell.tones\[1\]`"),
        ({"gong": {"size": 3}}, r"unknown field `size` - at `\$.gong`"),
    ],
)
def test_a_mistake_is_refused_with_its_place(section: dict[str, Any], message: str):
    with pytest.raises(msgspec.ValidationError, match=message):
        msgspec.convert(section, OPTIONS)


def test_its_schema_can_stand_in_that_of_the_file():
    (_,), components = msgspec.json.schema_components([OPTIONS])
    assert set(components["SpellcastingOptions"]["properties"]) == {"bell", "gong"}
