"""The JSON Schema of `coven.yaml`, for editors: made of the model and of a catalogue, never written by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from branches.agents.gates import DONE
from branches.agents.options import AgentsOptions
from branches.catalogue import Catalogue, LeafInfo, LeafKind
from branches.chat.options import ChatOptions
from branches.secret import Secret
from covenants.checks.instances import AUTO
from covenants.grammar import PLAIN_NAME
from covenants.model import CovenFile, NatsOptions, RouteOptions

Schema = dict[str, Any]

_TYPES = ("chat", "agents", "spellcasting")
_NAME: Schema = {"type": "string", "pattern": f"^{PLAIN_NAME.pattern}$"}
_ROUTE: Schema = {"type": "string", "pattern": "->|→"}
_USE: Schema = {"type": "string", "pattern": r"\.py:\w+$", "description": "user code by file: `file.py:Name`"}
_REFERENCE: Schema = {"type": "string", "pattern": r"\$\{", "description": "`${NAME}` of an environment variable"}
_REFS = "#/$defs/{name}"


def json_schema(catalogue: Catalogue) -> Schema:
    """The schema of the file, with the leaves of a catalogue. It says less than the check, and nothing else."""
    structs = [CovenFile, NatsOptions, RouteOptions, ChatOptions, AgentsOptions]
    leaves = [leaf.options for leaf in catalogue.leaves if leaf.options is not None]
    (file, nats, _, chat, agents, *options), definitions = _components([*structs, *leaves])
    for reference in options:
        _allow_references(definitions[_name(reference)])
    by_leaf = dict(zip(leaves, options, strict=True))
    root = definitions.pop(_name(file))
    _complete_routes(definitions["RouteOptions"])
    _complete_circle(definitions["CircleOptions"], catalogue)
    sections = {
        "chat": _leaf_section(definitions.pop(_name(chat)), "leaf", catalogue.of(LeafKind.CHAT), (), by_leaf),
        "agents": _leaf_section(
            definitions.pop(_name(agents)), "crystal", catalogue.of(LeafKind.CRYSTAL), (AUTO,), by_leaf
        ),
        "spellcasting": _spellcasting(catalogue.of(LeafKind.SUBSTRATE), by_leaf),
    }
    definitions |= {f"{type} section": section for type, section in sections.items()}
    properties = root["properties"]
    properties["coven"] |= _NAME
    described = properties["nats"].get("description", "")
    properties["nats"] = {"description": described, "anyOf": [{"type": "string"}, nats], "default": "embedded"}
    properties["branches"] |= _branches()
    properties["covenant"]["items"] = {"anyOf": [_ROUTE, {"$ref": _REFS.format(name="RouteOptions")}]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "coven.yaml",
        **{key: value for key, value in root.items() if key != "title"},
        "$defs": dict(sorted(definitions.items())),
    }


def _components(structs: list[type[msgspec.Struct]]) -> tuple[tuple[Schema, ...], dict[str, Schema]]:
    schemas, definitions = msgspec.json.schema_components(structs, schema_hook=_hook, ref_template=_REFS)
    return tuple(schemas), cast("dict[str, Schema]", definitions)


def _hook(type: Any) -> Schema:
    if type is Secret:
        return {"type": "string"}
    raise NotImplementedError(type)


def _name(reference: Schema) -> str:
    return reference["$ref"].removeprefix(_REFS.format(name=""))


def _allow_references(options: Schema) -> None:
    """`${NAME}` may stand for a number or a switch of a leaf too."""
    for name, wanted in options.get("properties", {}).items():
        if wanted.get("type") in ("integer", "number", "boolean"):
            outer = {key: wanted.pop(key) for key in ("description", "default") if key in wanted}
            options["properties"][name] = {**outer, "anyOf": [wanted, _REFERENCE]}


def _complete_routes(route: Schema) -> None:
    route["properties"]["route"] |= {"pattern": _ROUTE["pattern"]}


def _complete_circle(circle: Schema, catalogue: Catalogue) -> None:
    """Editors offer the gates that are known; others may be the user's."""
    names = [DONE.name, *catalogue.spells()]
    for key in ("gates", "approve"):
        circle["properties"][key]["items"] = {"anyOf": [{"enum": names}, {"type": "string"}]}


def _leaf_section(
    section: Schema,
    key: str,
    leaves: Mapping[str, LeafInfo],
    others: tuple[str, ...],
    by_leaf: Mapping[type[msgspec.Struct], Schema],
) -> Schema:
    """A branch that has one leaf: its options depend on which one it is."""
    properties = section["properties"]
    properties["options"] = {"type": ["object", "null"], "description": "the options of the leaf"}
    properties |= {"use": _USE, "branch": {"enum": list(_TYPES)}}
    named: list[Schema] = []
    if key == "crystal":
        named = [_named_with_options(leaves, by_leaf)]
        properties[key] = {**_without_type(properties[key]), "anyOf": [{"type": "string"}, *named]}
        properties["crystals"] |= {
            "propertyNames": _NAME,
            "additionalProperties": {"anyOf": [{"enum": list(leaves)}, *named]},
        }
    known = {"properties": {key: {"anyOf": [{"enum": [*others, *leaves]}, *named]}}}
    rules: list[Schema] = [{"if": {"not": {"required": ["use"]}}, "then": known}]
    for name, leaf in leaves.items():
        if leaf.options is not None:
            chosen = {"properties": {key: {"const": name}}, "required": [key], "not": {"required": ["use"]}}
            rules.append({"if": chosen, "then": {"properties": {"options": by_leaf[leaf.options]}}})
    return {**section, "type": ["object", "null"], "additionalProperties": False, "allOf": rules}


def _without_type(schema: Schema) -> Schema:
    return {name: value for name, value in schema.items() if name != "type"}


def _named_with_options(leaves: Mapping[str, LeafInfo], by_leaf: Mapping[type[msgspec.Struct], Schema]) -> Schema:
    """A leaf with its options below its name; any other name is the user's, with the file that it is in."""
    properties: Schema = {
        name: {"description": leaf.summary, "anyOf": [by_leaf[leaf.options], {"type": "null"}]}
        for name, leaf in leaves.items()
        if leaf.options is not None
    }
    users = {"type": "object", "properties": {"use": _USE}, "required": ["use"]}
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": users,
        "minProperties": 1,
        "maxProperties": 1,
    }


def _spellcasting(substrates: Mapping[str, LeafInfo], by_leaf: Mapping[type[msgspec.Struct], Schema]) -> Schema:
    properties: Schema = {"branch": {"enum": list(_TYPES)}}
    for name, leaf in substrates.items():
        nothing: Schema = {"type": ["object", "null"], "maxProperties": 0}
        options = by_leaf[leaf.options] if leaf.options is not None else nothing
        users: Schema = {"type": "object", "properties": {"use": _USE}, "required": ["use"]}
        properties[name] = {"description": leaf.summary, "anyOf": [options, users, {"type": "null"}]}
    users = {"type": "object", "properties": {"use": _USE}, "required": ["use"]}
    return {
        "type": ["object", "null"],
        "description": "the substrates that are configured, each with its options",
        "properties": properties,
        "additionalProperties": users,
    }


def _branches() -> Schema:
    """Instances with the name of their type, and others that say what they are."""
    references = {type: {"$ref": _REFS.format(name=f"{type} section")} for type in _TYPES}
    named = [
        {"if": {"properties": {"branch": {"const": type}}, "required": ["branch"]}, "then": reference}
        for type, reference in references.items()
    ]
    return {
        "properties": references,
        "propertyNames": _NAME,
        "additionalProperties": {
            "type": "object",
            "properties": {"branch": {"enum": list(_TYPES)}},
            "required": ["branch"],
            "allOf": named,
        },
    }
