"""Plain values of a document as msgspec structs, collecting every problem instead of stopping at the first."""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

import msgspec

from branches.secret import Secret, SecretUnset, fill
from covenants.document import Document, Path
from covenants.problems import shown, suggest

_ERROR_PATH = re.compile(r" - at `\$(?P<path>[^`]*)`$")
_STEP = re.compile(r"\[(?P<index>\d+)\]|\.(?P<name>\w+)")
_JSON_NAMES: dict[type[Any], str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    type(None): "nothing",
    dict: "a mapping",
    list: "a list",
}


class Invalid:
    """Stands for a value that could not be built; its problems are noted."""

    def __repr__(self) -> str:
        return "<invalid>"


INVALID = Invalid()


class Shaper:
    """Builds typed values from a document. With an `environ`, `${NAME}` in texts stands for a variable of it.

    What is broken is noted and left out, so that the rest can still be looked at.
    """

    def __init__(self, document: Document, environ: Mapping[str, str] | None = None) -> None:
        self._document, self._environ = document, environ

    def build(self, wanted: Any, value: Any, path: Path) -> Any:
        """The value as the wanted type, without what is broken in it; `INVALID` if nothing is left of it."""
        wanted = _bare(wanted)
        if wanted is Secret:
            return self._secret(value, path)
        if self._environ is not None and isinstance(value, str) and "${" in value:
            return self._filled(wanted, value, path, self._environ)
        if get_origin(wanted) in (Union, types.UnionType):
            return self._union(wanted, value, path)
        if isinstance(wanted, type) and issubclass(wanted, msgspec.Struct):
            return self._struct(wanted, value, path)
        if get_origin(wanted) in (list, tuple) and isinstance(value, list) and _is_uniform(wanted):
            items = cast("list[Any]", value)
            built = [self.build(get_args(wanted)[0], item, (*path, number)) for number, item in enumerate(items)]
            kept = [item for item in built if item is not INVALID]
            return tuple(kept) if get_origin(wanted) is tuple else kept
        if get_origin(wanted) is dict and isinstance(value, dict):
            pairs = cast("dict[str, Any]", value)
            built = {name: self.build(get_args(wanted)[1], item, (*path, name)) for name, item in pairs.items()}
            return {name: item for name, item in built.items() if item is not INVALID}
        if get_origin(wanted) is Literal and isinstance(value, str) and value not in get_args(wanted):
            return self._refuse(path, f"`{shown(value)}` is not possible here", suggest(value, get_args(wanted)))
        return self._convert(wanted, value, path)

    def _struct(self, wanted: type[msgspec.Struct], value: Any, path: Path) -> Any:
        if isinstance(value, wanted):
            return value
        if not isinstance(value, dict):
            return self._wrong(path, "a mapping", value)
        pairs = cast("dict[str, Any]", value)
        fields = {field.encode_name: field for field in msgspec.structs.fields(wanted)}
        built: dict[str, Any] = {}
        for name, item in pairs.items():
            field = fields.get(name)
            if field is not None:
                built[field.name] = self.build(field.type, item, (*path, name))
            else:
                message = f"the key `{shown(name)}` is not known here"
                self._document.add("E110", message, suggest(name, tuple(fields)), at=(*path, name), key=True)
        missing = [name for name, field in fields.items() if field.required and name not in pairs]
        for name in missing:
            self._document.add("E111", f"the key `{name}` is missing", f"add `{name}: …`", at=path, key=True)
        broken = [name for name, field in fields.items() if field.required and built.get(field.name) is INVALID]
        if missing or broken:
            return INVALID
        return self._call(wanted, {name: item for name, item in built.items() if item is not INVALID}, path)

    def _call(self, wanted: type[msgspec.Struct], built: dict[str, Any], path: Path) -> Any:
        try:
            return wanted(**built)
        except (ValueError, TypeError) as error:  # raised by the struct's own __post_init__
            return self._refuse(path, str(error), "")

    def _union(self, wanted: Any, value: Any, path: Path) -> Any:
        members = [_bare(member) for member in get_args(wanted)]
        if value is None and type(None) in members:
            return None
        members = [member for member in members if member is not type(None)]
        candidates = [member for member in members if _takes(member, value)] if len(members) > 1 else members
        if len(candidates) == 1:
            return self.build(candidates[0], value, path)
        return self._convert(wanted, value, path)

    def _convert(self, wanted: Any, value: Any, path: Path, *, strict: bool = True) -> Any:
        try:
            return msgspec.convert(value, wanted, strict=strict)
        except msgspec.ValidationError as error:
            text = str(error)
            match = _ERROR_PATH.search(text)
            where = path
            if match:
                text = text[: match.start()]
                steps = _STEP.finditer(match["path"])
                where = (*path, *(int(step["index"]) if step["index"] else step["name"] for step in steps))
            return self._refuse(where, _plain(text))

    def _secret(self, value: Any, path: Path) -> Any:
        if not isinstance(value, str):
            return self._wrong(path, "`${NAME}` of an environment variable", value)
        return Secret(value, self._environ or {})

    def _filled(self, wanted: Any, value: str, path: Path, environ: Mapping[str, str]) -> Any:
        if get_origin(wanted) in (Union, types.UnionType):
            members = get_args(wanted)
            wanted = Secret if Secret in members else next((m for m in members if m is not type(None)), wanted)
            return self.build(wanted, value, path)
        if wanted is Any:
            return Secret(value, environ)
        try:
            return self._convert(wanted, fill(value, environ), path, strict=False)
        except SecretUnset:
            return INVALID  # noted by the check of variables, which knows whether this branch runs here

    def _wrong(self, path: Path, wanted: str, value: Any) -> Invalid:
        found = _JSON_NAMES.get(cast("type[Any]", type(value)), "this")
        return self._refuse(path, f"{wanted} belongs here, not {found}")

    def _refuse(self, path: Path, message: str, hint: str | None = None) -> Invalid:
        self._document.add("E112", message, _example(message, path) if hint is None else hint, at=path)
        return INVALID


def _bare(wanted: Any) -> Any:
    """The type without `Annotated`, unless the annotation restricts values."""
    if get_origin(wanted) is not Annotated:
        return wanted
    base, *metas = get_args(wanted)
    if all(isinstance(meta, msgspec.Meta) and not _restricts(meta) for meta in metas):
        return _bare(base)
    return wanted


def _restricts(meta: msgspec.Meta) -> bool:
    names = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length", "tz")
    return any(getattr(meta, name) is not None for name in names)


def _is_uniform(wanted: Any) -> bool:
    arguments = get_args(wanted)
    return get_origin(wanted) is list or (len(arguments) == 2 and arguments[1] is Ellipsis)


def _takes(member: Any, value: Any) -> bool:
    """Whether a member of a union is meant by this value, going by what JSON calls its type."""
    origin = get_origin(member) or member
    if origin is Annotated:
        return _takes(get_args(member)[0], value)
    if origin is Secret:
        return isinstance(value, str)
    if origin is Literal:
        return value in get_args(member)
    if not isinstance(origin, type):
        return True
    if issubclass(origin, msgspec.Struct) or origin is dict:
        return isinstance(value, dict)
    if origin in (list, tuple):
        return isinstance(value, list)
    return origin in _ACCEPTS and _ACCEPTS[cast("type[Any]", origin)](value)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_ACCEPTS: dict[type[Any], Callable[[Any], bool]] = {
    bool: _is_bool,
    int: _is_int,
    float: _is_number,
    str: _is_text,
}


def _plain(text: str) -> str:
    """A message of msgspec in the words of the file."""
    names = {"str": "text", "int": "a whole number", "float": "a number", "bool": "true or false", "null": "nothing"}
    names |= {"object": "a mapping", "array": "a list"}

    def word(match: re.Match[str]) -> str:
        return " or ".join(names.get(part, part) for part in match[1].split(" | "))

    text = re.sub(r"`([^`]*)`", word, text)
    match = re.fullmatch(r"Expected (?P<wanted>.*), got (?P<got>.*)", text)
    if match:
        return f"{match['wanted']} belongs here, not {match['got']}"
    return text.replace("Expected ", "this must be ", 1)


def _example(message: str, path: Path) -> str:
    """What could stand at the place of a wrong value, going by the first type that the message names."""
    wanted = message.partition(", not ")[0]
    found = [(wanted.find(name), value) for name, value in _EXAMPLES.items() if name in wanted]
    if not found:
        return ""
    value = min(found)[1]
    if value.isdecimal() and (bound := _BOUND.search(wanted)):
        value = str(int(bound["limit"]) + {">": 1, "<": -1}.get(bound["sign"], 0))
    key = path[-1] if path else 0
    if isinstance(key, str):
        return f"e.g. `{shown(key)}: {value}`"
    return f"e.g. `{value}`" if path else "e.g. `coven: hearth` as one of its lines"


_BOUND = re.compile(r" (?P<sign>>=|<=|>|<) (?P<limit>-?\d+)$")
_EXAMPLES = {
    "a mapping": "{name: value}",
    "a list": "[first, second]",
    "a whole number": "40",
    "a number": "0.5",
    "text": "'some text'",
    "true or false": "true",
    "${NAME}": "${NAME}",
}
