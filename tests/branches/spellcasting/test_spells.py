"""What a crystal is offered is derived from the spell structs; only spells of configured substrates are offered."""

from __future__ import annotations

from typing import Any, ClassVar

import jsonschema
import msgspec
import pytest

from branches.spellcasting import Spell, SpellFailed, SpellRegistry
from branches.spellcasting.spells import Exec, ListDir, ReadText, WriteText

ALL: list[type[Spell]] = [ReadText, ListDir, WriteText, Exec]
KNOWN = {spell.name(): spell for spell in ALL}


def test_the_baseline_spells_have_the_names_arguments_and_defaults_of_the_contract():
    assert {name: _arguments(spell) for name, spell in KNOWN.items()} == {
        "fs.read_text": {"path": "string", "max_bytes": 20_000},
        "fs.list_dir": {"path": ".", "max_entries": 200},
        "fs.write_text": {"path": "string", "text": "string", "overwrite": False},
        "shell.exec": {"cmd": "string", "timeout_s": 20},
    }


def test_reading_may_be_repeated_and_acting_may_not():
    assert {spell.name(): spell.idempotent for spell in ALL} == {
        "fs.read_text": True,
        "fs.list_dir": True,
        "fs.write_text": False,
        "shell.exec": False,
    }


@pytest.mark.parametrize("spell", ALL)
def test_each_spell_and_each_argument_is_described_and_its_schema_is_valid(spell: type[Spell]):
    schema = spell.schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert len(spell.description()) > 20
    assert all(len(field["description"]) > 10 for field in schema["properties"].values())
    assert "$ref" not in msgspec.json.encode(schema).decode()


def test_the_schema_and_the_struct_agree_on_what_fits():
    registry = SpellRegistry(KNOWN, ["fs", "shell"])
    for arguments in ({}, {"path": 1}, {"path": "a", "max_bytes": 0}, {"path": "a", "more": 1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(arguments, ReadText.schema())
        with pytest.raises(SpellFailed) as failure:
            registry.resolve("fs.read_text", arguments)
        assert failure.value.code == "bad_arguments"
    jsonschema.validate({"path": "a"}, ReadText.schema())
    assert registry.resolve("fs.read_text", {"path": "a"}) == ReadText(path="a")


def test_only_spells_of_configured_substrates_are_offered():
    registry = SpellRegistry(KNOWN, ["fs"])
    assert list(registry.offered()) == ["fs.read_text", "fs.list_dir", "fs.write_text"]
    assert repr(registry) == "<SpellRegistry offers fs.read_text, fs.list_dir, fs.write_text>"
    with pytest.raises(SpellFailed, match="no substrate 'shell' is configured") as failure:
        registry.resolve("shell.exec", {"cmd": "ls"})
    assert failure.value.code == "unavailable"


def _arguments(spell: type[Spell]) -> dict[str, Any]:
    fields = spell.schema()["properties"]
    return {name: field.get("default", field["type"]) for name, field in fields.items()}


def test_an_argument_that_has_the_name_of_something_of_the_spell_is_refused_with_the_way_out():
    with pytest.raises(TypeError, match=r'Call: an argument cannot be called `name`.*field\(name="name"\)'):

        class Call(Spell, frozen=True, kw_only=True):
            """Call somebody."""

            full_name = "phone.call"
            name: str

    class Ring(Spell, frozen=True, kw_only=True):
        """Ring somebody."""

        full_name = "phone.ring"
        name_: str = msgspec.field(name="name")

    assert (Ring.name(), list(Ring.schema()["properties"])) == ("phone.ring", ["name"])


@pytest.mark.parametrize("setting", ["full_name", "idempotent", "max_seconds"])
def test_what_is_said_about_a_spell_is_not_taken_for_an_argument(setting: str):
    with pytest.raises(TypeError, match=f"`{setting}` says something about the spell and is no argument"):
        type("Call", (Spell,), {"__annotations__": {setting: "bool"}, setting: True})
    written = type("Call", (Spell,), {"__annotations__": {setting: ClassVar[Any]}, "__doc__": "Call.", setting: 5.0})
    assert "properties" not in written.schema() or not written.schema()["properties"]


@pytest.mark.parametrize("seconds", ["900", True, -1, float("nan"), (5,)])
def test_seconds_that_are_no_number_are_said_where_they_are_written(seconds: Any):
    with pytest.raises(TypeError, match=r"Call: `max_seconds` is a number of seconds or None, not "):
        type("Call", (Spell,), {"max_seconds": seconds})
    assert [type("Call", (Spell,), {"max_seconds": good}).max_seconds for good in (5, 0.5, None)] == [5, 0.5, None]
