"""What `coven.yaml` says about a spellcasting instance: the substrates that are configured, each with its options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class NoOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The options of a substrate that has none."""


def spellcasting_options(substrates: Mapping[str, type[msgspec.Struct] | None]) -> type[msgspec.Struct]:
    """The struct that a spellcasting section is checked against: one optional field a known substrate.

        spellcasting:
          fs: {root: ./workspace}
          shell: {allow: [ls, cat]}

    `substrates` maps the names of all substrates to their option structs. The struct is made and not written down
    because its fields are the catalogue's; errors of `msgspec.convert` name the place (`$.shell.allow[0]`), and its
    JSON Schema is part of the file's.
    """
    fields: list[tuple[str, Any, Any]] = [
        (name, (NoOptions if options is None else options) | msgspec.UnsetType, msgspec.UNSET)
        for name, options in substrates.items()
    ]
    return msgspec.defstruct("SpellcastingOptions", fields, frozen=True, kw_only=True, forbid_unknown_fields=True)


def configured_substrates(options: msgspec.Struct) -> dict[str, msgspec.Struct]:
    """The substrates that the section names, each with its options; the others are not available."""
    fields = {name: getattr(options, name) for name in options.__struct_fields__}
    return {name: value for name, value in fields.items() if value is not msgspec.UNSET}
