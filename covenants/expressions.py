"""Expressions of a route: a bare name is a plain attribute read, everything else is CEL."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
import msgspec.inspect as mi

from covenants.problems import nearest, shown, suggest
from covenants.routing import TransformFailed
from journals import Entry, Record

Reader = Callable[[Record[Any]], Any]

RECORD_TYPES: dict[str, Any] = {
    "position": int,
    "id": str,
    "kind": str,
    "session": str,
    "correlation_id": str | None,
    "causation_id": str | None,
    "origin": str | None,
    "time": float,
}
"""What an expression finds in `record`."""

_RECORD_NAMES = tuple(RECORD_TYPES)
_SCALARS = (mi.StrType, mi.IntType, mi.FloatType, mi.BoolType, mi.NoneType)
_BARE = re.compile(r"\s*(?:(?P<record>record)\s*\.\s*)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*")
_CONSTANTS = {"true", "false", "null"}
_TYPE_NAMES = {"int", "uint", "double", "string", "bytes", "bool", "list", "map", "null_type", "type", "optional_type"}
_NAMESPACES = {"math", "base64", "sets", "lists", "strings", "optional"}
_NATIVE = {
    "size", "contains", "startsWith", "endsWith", "matches", "int", "uint", "double", "string", "bytes", "timestamp",
    "duration", "type", "dyn", "getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear",
    "getHours", "getMinutes", "getSeconds", "getMilliseconds", "of", "none", "ofNonZeroValue", "value", "hasValue",
    "orValue", "or",
}  # fmt: skip
_MACRO = re.compile(r"\.\s*(?:map|filter|exists|all|exists_one)\s*\(\s*([A-Za-z_][A-Za-z0-9_]*)\s*,")
_MEMBER = re.compile(r"(?<![\w.])record\s*\.\s*([A-Za-z_][A-Za-z0-9_]*)")
_QUOTED = re.compile(
    r"""
    [bB]?[rR] (?: '''(?s:.*?)''' | \"\"\"(?s:.*?)\"\"\" | '[^'\n]*' | "[^"\n]*" )
    | '''(?:\\.|[^\\])*?''' | \"\"\"(?:\\.|[^\\])*?\"\"\" | '(?:\\.|[^'\\\n])*' | "(?:\\.|[^"\\\n])*"
    | //[^\n]*
    """,
    re.VERBOSE,
)
_SYNTAX = re.compile(r"ERROR: <input>:(\d+):(\d+): (?:Syntax error: )?(.*)")
_ASSIGNS = re.compile(r"(?<![=!<>])=(?!=)")
_WORDS = re.compile(r"[\w\s,.!?:-]+")
_RUN_ERRORS = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)


class ExpressionError(ValueError):
    """An expression that cannot work. `code` is the problem's, `offset` where in the text it is."""

    def __init__(self, code: str, message: str, offset: int, hint: str) -> None:
        super().__init__(message)
        self.code, self.offset, self.hint = code, offset, hint


class Expression(NamedTuple):
    """A compiled expression.

    `read` gives its value for a record and raises `TransformFailed`. `field` is set where it only reads a field of the
    source. `type` is what is known of its value: None where nothing is. `constant` says that it is the same for every
    record. `reads` are the fields that it sees, `origin`, and of the envelope `record.id` and the like, or `record`
    where it may be any of it.
    """

    text: str
    read: Reader
    type: mi.Type | None = None
    field: str | None = None
    constant: bool = False
    reads: frozenset[str] = frozenset()


def compile_expression(value: Any, entry: type[Entry]) -> Expression:
    """The expression of a `map:` or `when:` over records of this entry. Raises `ExpressionError`.

    A number, true, false or nothing of the file stands for itself; a text is an expression.
    """
    if not isinstance(value, str):
        return Expression(str(value), partial(_always, value), constant=True)
    fields = {field.encode_name: field for field in msgspec.structs.fields(entry)}
    bare = _BARE.fullmatch(value)
    if bare and bare["name"] not in _CONSTANTS:
        return _compile_bare(value, bare, fields)
    return _compile_cel(value, fields)


def _compile_bare(text: str, bare: re.Match[str], fields: Mapping[str, Any]) -> Expression:
    name, at = bare["name"], bare.start("name")
    if bare["record"]:
        if name not in RECORD_TYPES:
            raise ExpressionError("E305", f"`record` has no `{name}`", at, suggest(name, _RECORD_NAMES))
        reads = frozenset((f"record.{name}",))
        return Expression(text, attrgetter(name), mi.type_info(RECORD_TYPES[name]), reads=reads)
    if name == "origin":
        return Expression(text, attrgetter("origin"), mi.type_info(str | None), reads=frozenset((name,)))
    if name == "record":
        return _compile_cel(text, fields)
    field = fields.get(name)
    if field is None:
        raise ExpressionError("E305", f"`{name}` is no field of the source", at, _name_hint(name, text, fields))
    reads = frozenset((name,))
    return Expression(text, attrgetter(f"entry.{field.name}"), mi.type_info(field.type), field.name, reads=reads)


def _compile_cel(text: str, fields: Mapping[str, Any]) -> Expression:
    import cel  # here, since importing it takes long and most routes need none

    try:
        program = cel.compile(text)
        references = program.references()
    except ValueError as error:
        raise _syntax_error(text, str(error)) from None
    blank = _QUOTED.sub(lambda match: " " * len(match[0]), text)
    bound = set(_MACRO.findall(blank)) | _TYPE_NAMES
    used = [name for name in references["variables"] if name not in bound]
    used = [name for name in used if not (name in _NAMESPACES and re.search(rf"\b{name}\s*\.\s*\w+\s*\(", blank))]
    for name in used:
        if name not in fields and name not in ("record", "origin"):
            at = _find(name, blank)
            raise ExpressionError("E305", f"`{name}` is no field of the source", at, _name_hint(name, text, fields))
    for match in _MEMBER.finditer(blank):
        if "record" in used and match[1] not in RECORD_TYPES:
            hint = suggest(match[1], _RECORD_NAMES)
            raise ExpressionError("E305", f"`record` has no `{match[1]}`", match.start(1), hint)
    functions = _functions(references["functions"], blank)
    context = _context(used, fields, functions)

    def read(record: Record[Any]) -> Any:
        try:
            return program.execute(context(record))
        except _RUN_ERRORS as error:
            raise TransformFailed("expression", f"`{shown(text)}` failed: {shown(error, 300)}") from None

    if used:
        return Expression(text, read, reads=_reads(used, blank))
    return _constant(text, lambda: program.execute(functions))


def _reads(used: Sequence[str], blank: str) -> frozenset[str]:
    """What an expression with these names looks at. Where `record` stands without a member, it may be any of it."""
    members = [match[1] for match in _MEMBER.finditer(blank)]
    whole = len(re.findall(r"(?<![\w.])record\b", blank)) > len(members)
    envelope = {"record"} if whole else {f"record.{member}" for member in members}
    return frozenset(name for name in used if name != "record") | (envelope if "record" in used else frozenset[str]())


def _always(value: Any, record: Any) -> Any:
    return value


def _constant(text: str, execute: Callable[[], Any]) -> Expression:
    try:
        value = execute()
    except _RUN_ERRORS as error:
        raise ExpressionError("E304", f"this can never be evaluated: {shown(error, 200)}", 0, "") from None
    return Expression(text, partial(_always, value), constant=True)


def _context(
    used: list[str], fields: Mapping[str, Any], functions: Mapping[str, Any]
) -> Callable[[Record[Any]], dict[str, Any]]:
    """A function that gives an expression what it names, and nothing else."""
    simple = [(name, fields[name].name) for name in used if name in fields and _is_scalar(fields[name].type)]
    nested = [(name, fields[name].name) for name in used if name in fields and not _is_scalar(fields[name].type)]
    simple = [(name, field) for name, field in simple if name not in ("record", "origin")]
    nested = [(name, field) for name, field in nested if name not in ("record", "origin")]
    with_record, with_origin = "record" in used, "origin" in used

    def context(record: Record[Any]) -> dict[str, Any]:
        entry = record.entry
        values = {name: getattr(entry, field) for name, field in simple}
        for name, field in nested:
            values[name] = msgspec.to_builtins(getattr(entry, field))
        if with_record:
            values["record"] = {name: getattr(record, name) for name in _RECORD_NAMES}
        if with_origin:
            values["origin"] = record.origin
        return {**values, **functions} if functions else values

    return context


def _is_scalar(type: Any) -> bool:
    node = mi.type_info(type)
    while isinstance(node, mi.Metadata):
        node = node.type
    members = node.types if isinstance(node, mi.UnionType) else (node,)
    return all(isinstance(member, _SCALARS) for member in members)


def _functions(names: list[str], blank: str) -> dict[str, Any]:
    """The functions beyond CEL's own that an expression calls. Raises `ExpressionError` for one that nobody has."""
    from cel.stdlib import STDLIB_FUNCTIONS

    library = STDLIB_FUNCTIONS
    last = {name.rpartition(".")[2]: name for name in library}
    called = [name for name in names if name.isidentifier()]
    for name in called:
        if name not in _NATIVE and name not in last:
            known = sorted(_NATIVE | set(last))
            raise ExpressionError("E305", f"there is no function `{name}`", _find(name, blank), suggest(name, known))
    return {
        full: library[full]
        for full in library
        if full.rpartition(".")[2] in called and full.rpartition(".")[2] not in _NATIVE
    }


def _find(name: str, blank: str) -> int:
    match = re.search(rf"(?<![\w.]){re.escape(name)}\b", blank) or re.search(rf"\b{re.escape(name)}\b", blank)
    return match.start() if match else 0


def _name_hint(name: str, text: str, fields: Mapping[str, Any]) -> str:
    names = (*fields, "record", "origin")
    near = nearest(name, names, likeness=0.7)
    if near is not None:
        return f"did you mean `{near}`?"
    quoted = _quoted_hint(text) if _WORDS.fullmatch(text) else f"a text is written in quotes: `'{shown(name)}'`"
    return f"there are: {', '.join(names)}; {quoted}"


def _quoted_hint(text: str) -> str:
    return f"a text is written in quotes of its own: \"'{shown(text.strip())}'\""


def _plain_reason(reason: str) -> str:
    """What the parser says, in words of people who do not write parsers."""
    if "<EOF>" in reason:
        return "it ends too early"
    if match := re.fullmatch(r"(?:mismatched input|extraneous input|token recognition error at:) (?P<what>.*)", reason):
        return f"{match['what']} does not belong here"
    if match := re.fullmatch(r"no viable alternative at input (?P<what>.*)", reason):
        return f"nothing can follow {match['what']}"
    return reason


def _syntax_error(text: str, message: str) -> ExpressionError:
    errors = [(int(line), int(column), reason) for line, column, reason in _SYNTAX.findall(message)]
    line, column, reason = next((e for e in errors if "Incomplete" not in e[2]), errors[0] if errors else (1, 1, ""))
    lines = text.split("\n")
    offset = sum(len(before) + 1 for before in lines[: line - 1]) + column - 1
    reason = _plain_reason(re.sub(r" expecting .*", "", reason))
    hint = _quoted_hint(text) if _WORDS.fullmatch(text) else "see cel.dev for the language"
    if _ASSIGNS.search(_QUOTED.sub(lambda match: " " * len(match[0]), text)):
        hint = "two things are compared with `==`"
    return ExpressionError("E304", f"this is no CEL: {shown(reason, 120)}", min(offset, max(len(text) - 1, 0)), hint)
