"""Writes what is derived from the code: `docs/coven.schema.json`, the tables of `docs/configuration.md`, and
`docs/conformance.md`.

`python docs/generate.py`, after a change of the model, of a leaf, of a conformance suite, or of what holds a rule.
"""

from __future__ import annotations

import json
import re
import sys
import types
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from branches.agents.crystal import Sampling
from branches.agents.options import AgentsOptions, CallOptions, CircleOptions
from branches.agents.wards import Ward
from branches.chat.options import ChatOptions
from branches.secret import Secret
from covenants.model import ApprovalOptions, CovenFile, NatsOptions, RouteOptions
from covenants.schema import json_schema
from leaves.catalogue import CATALOGUE

FOLDER = Path(__file__).parent
SCHEMA, PAGE = FOLDER / "coven.schema.json", FOLDER / "configuration.md"
STRUCTS: dict[str, type[msgspec.Struct]] = {
    "file": CovenFile,
    "nats": NatsOptions,
    "chat": ChatOptions,
    "agents": AgentsOptions,
    "call": CallOptions,
    "sampling": Sampling,
    "circle": CircleOptions,
    "ward": Ward,
    "route": RouteOptions,
    "approval": ApprovalOptions,
    **{leaf.name: leaf.options for leaf in CATALOGUE.leaves if leaf.options is not None},
}
_TABLE = re.compile(r"(<!-- table: (?P<name>\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false", type(None): "nothing", Any: "any"}


def schema_text() -> str:
    """What the schema's file must hold."""
    return json.dumps(json_schema(CATALOGUE), indent=2, ensure_ascii=False) + "\n"


def page_text() -> str:
    """The page with its tables as they must be."""
    text = PAGE.read_text(encoding="utf-8")
    return _TABLE.sub(lambda match: match[1] + _table(STRUCTS[match["name"]]) + match[3], text)


def _table(struct: type[msgspec.Struct]) -> str:
    rows = ["| key | type | default | meaning |", "|---|---|---|---|"]
    for field in msgspec.structs.fields(struct):
        cells = (f"`{field.encode_name}`", _type(field.type), _default(field), _meaning(field.type))
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    value = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    plain = msgspec.to_builtins(value)
    if plain is None:
        return "none"
    text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _meaning(wanted: Any) -> str:
    metas = getattr(wanted, "__metadata__", ())
    return next((meta.description for meta in metas if meta.description), "")


def _type(wanted: Any) -> str:
    origin, arguments = get_origin(wanted), get_args(wanted)
    if origin is Annotated:
        return _type(arguments[0])
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(_type(member) for member in arguments if member is not type(None))
    if origin in (list, tuple):
        return "list" if arguments[0] is Any else f"list of {_type(arguments[0])}"
    if origin is dict:
        return "mapping"
    if wanted is Secret:
        return "text or `${NAME}`"
    if isinstance(wanted, type) and issubclass(wanted, msgspec.Struct):
        return "mapping"
    return _WORDS.get(wanted, str(wanted))


if __name__ == "__main__":
    SCHEMA.write_text(schema_text(), encoding="utf-8")
    PAGE.write_text(page_text(), encoding="utf-8")
    sys.path.insert(0, str(FOLDER.parent))
    from docs import rules

    rules.PAGE.write_text(rules.page_text(), encoding="utf-8")
