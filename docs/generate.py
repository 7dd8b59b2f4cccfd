"""Writes what is derived from the code: `docs/coven.schema.json`, the tables of `docs/configuration.md`, the kinds of
`docs/entries.md`, and `docs/conformance.md`.

`python docs/generate.py`, after a change of the model, of an entry, of a leaf, of a conformance suite, or of what holds
a rule.
"""

from __future__ import annotations

import inspect
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
from branches.manifest import Direction, Kind
from branches.secret import Secret
from covenants.manifests import MANIFESTS
from covenants.model import ApprovalOptions, CovenFile, NatsOptions, RouteOptions
from covenants.schema import json_schema
from leaves.catalogue import CATALOGUE

FOLDER = Path(__file__).parent
SCHEMA, PAGE, KINDS = FOLDER / "coven.schema.json", FOLDER / "configuration.md", FOLDER / "entries.md"
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
_ROUTES = {
    Direction.PRODUCES: "Routes take it from here.",
    Direction.REQUIRES: "Routes bring it here, and without one that does the branch has nothing to do.",
    Direction.ACCEPTS: "Routes may bring it here.",
}
_BRANCH = re.compile(r"(<!-- kinds: (?P<name>\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_TABLE = re.compile(r"(<!-- table: (?P<name>\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false", type(None): "nothing", Any: "any"}


def schema_text() -> str:
    """What the schema's file must hold."""
    return json.dumps(json_schema(CATALOGUE), indent=2, ensure_ascii=False) + "\n"


def page_text() -> str:
    """The page with its tables as they must be."""
    text = PAGE.read_text(encoding="utf-8")
    return _TABLE.sub(lambda match: match[1] + _table(STRUCTS[match["name"]]) + match[3], text)


def kinds_text() -> str:
    """The page of the kinds as it must be."""
    return _BRANCH.sub(lambda match: match[1] + _kinds(match["name"]) + match[3], KINDS.read_text(encoding="utf-8"))


def _kinds(branch: str) -> str:
    kinds = [kind for kind in MANIFESTS[branch].kinds if kind.direction in _ROUTES]
    return "\n".join(map(_kind, kinds))


def _kind(kind: Kind) -> str:
    fields = msgspec.structs.fields(kind.entry)
    rows = [f"| `{field.encode_name}` | {_field_type(field.type)} | {_given(field)} |" for field in fields]
    table = ["| field | type | default |", "|---|---|---|", *rows] if rows else []
    answers = ", ".join(f"`{answer.kind()}`" for answer in kind.answers)
    says = [_ROUTES[kind.direction]]
    says += [f"It is answered by {answers}."] if answers else []
    says += ["Kept for minutes, and routed at most once."] if kind.short_lived else []
    says += ["It needs no route."] if kind.occasional else []
    return "\n".join([f"### {kind.name}\n", inspect.getdoc(kind.entry) or "", "", f"*{' '.join(says)}*\n", *table, ""])


def _given(field: msgspec.structs.FieldInfo) -> str:
    default = field.default_factory() if field.default is msgspec.NODEFAULT and not field.required else field.default
    return "unset" if default is msgspec.UNSET else "empty" if default == "" else _default(field)


def _field_type(wanted: Any) -> str:
    if isinstance(wanted, type) and issubclass(wanted, msgspec.Struct):
        return f"`{wanted.__name__}`"
    if get_origin(wanted) is tuple:
        return f"list of {_field_type(get_args(wanted)[0])}"
    if get_origin(wanted) in (Union, types.UnionType):
        named = [_field_type(each) for each in get_args(wanted) if each not in (type(None), msgspec.UnsetType)]
        return " or ".join(named)
    return _type(wanted)


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
    KINDS.write_text(kinds_text(), encoding="utf-8")
    sys.path.insert(0, str(FOLDER.parent))
    from docs import rules

    rules.PAGE.write_text(rules.page_text(), encoding="utf-8")
