"""Upcasts are code of others: what they raise is a record that cannot be read, and a wrong one is said at once."""

from __future__ import annotations

import pytest

from journals import EntryRegistry, InvalidEntry, UnknownKind, Unreadable
from tests.journals.kinds import Heard, Said


@pytest.mark.parametrize("error", [ZeroDivisionError("no words"), AttributeError("words"), KeyError("words")])
def test_an_upcast_that_raises_makes_its_record_unreadable_and_no_other(error: Exception) -> None:
    def upcast(fields: dict[str, object]) -> dict[str, object]:
        raise error

    registry = EntryRegistry([Heard])
    registry.upcast("Heard", 2)(upcast)
    read = registry.decode("Heard", 2, b'{"kind":"Heard","text":"once"}')
    assert isinstance(read, Unreadable)
    assert read.reason == f"the upcast from version 2 raised {type(error).__name__}: {error}"
    assert registry.decode("Heard", 3, b'{"kind":"Heard","text":"now"}') == Heard(text="now")


def test_an_upcast_that_could_never_be_used_is_refused() -> None:
    registry = EntryRegistry([Heard, Said])
    with pytest.raises(UnknownKind):
        registry.upcast("Herd", 1)
    with pytest.raises(InvalidEntry, match="Said has no version behind 1: its `schema_version` is 1"):
        registry.upcast("Said", 1)
