"""Fields and types: every route is compiled, and whatever cannot work is noted at the text that is to blame."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any, get_args

import msgspec
import msgspec.inspect as mi
from msgspec.structs import FieldInfo

from branches.agents.entries import AgentChunk, AgentThought
from branches.chat.entries import ChatActivity, ChatAnswer
from branches.manifest import Kind
from covenants.checks.code import load_via
from covenants.checks.scope import Line, Scope
from covenants.conversions import Conversion, conversion
from covenants.document import Path
from covenants.expressions import Expression, ExpressionError, compile_expression
from covenants.fits import Fit, fit, fits_value
from covenants.problems import shown, suggest
from covenants.transform import (
    Assignment,
    Endpoint,
    Make,
    Route,
    make_by_code,
    make_by_fields,
    make_fault,
    make_nothing,
    make_text_only,
    not_for_a_route,
)

_GIVEN_TO_FAULTS = ("error", "code")
_MEANT = "correlation_id"
_OWN_IDS = {_MEANT, "record.id", "record.correlation_id", "record.causation_id", "record.position"}
"""What nobody but Coven itself says."""
_TEXT = re.compile(r"\btext\b")


def compile_routes(scope: Scope) -> tuple[Route, ...]:
    """All routes that could be compiled; those that could not are noted."""
    routes: list[Route] = []
    for line in scope.lines:
        if line.source is not None:
            for name, targets in line.effects:
                route = _Compiler(scope, line, line.source).compile(name, targets)
                if route is not None:
                    routes.append(route)
    return tuple(routes)


class _Compiler:
    """Compiles one line of the covenant."""

    def __init__(self, scope: Scope, line: Line, source: Endpoint) -> None:
        self._scope, self._line, self._source = scope, line, source
        self._fields = _fields_of(source.kind)
        self._where = line.text_path if line.text_path in scope.document.spans else line.path
        self._broken = not line.complete

    def compile(self, name: str, targets: tuple[Endpoint, ...]) -> Route | None:
        """The route to these targets; None where something is wrong with it."""
        options = self._line.options
        condition = self._condition()
        make = self._make(targets)
        fault = self._line.fault
        fault_by = None if fault is None else make_fault(fault.kind.entry, self._fault_assignments(fault))
        if self._broken or make is None:
            return None
        if self._source.kind.entry is AgentChunk and targets and not self._shows_thoughts(targets[0].instance):
            make = make_text_only(make)
        if self._source.kind.entry is ChatAnswer:
            make, condition = not_for_a_route(make, condition)
        return Route(
            name,
            self._source,
            targets,
            make,
            condition=condition,
            fault=None if fault is None or fault_by is None else (fault, fault_by),
            via=options.via,
            max_hops=options.max_hops,
            from_beginning=options.start == "beginning",
            approval=self._scope.approvals.get(self._line.path) if targets else None,
        )

    def _shows_thoughts(self, chat: str) -> bool:
        """Whether a thought's chunks may go where this route goes: only where the thought itself goes, as it is.

        What a condition on its text would say, nobody knows before it is whole.
        """
        when = self._line.options.when
        return self._line.options.via is None and any(
            line.source.instance == self._source.instance
            and line.source.kind.entry is AgentThought
            and any(each.instance == chat and each.kind.entry is ChatActivity for each in line.targets)
            and line.options.via is None
            and "text" not in line.options.map
            and (line.options.when is None or (line.options.when == when and not _TEXT.search(str(when))))
            for line in self._scope.lines
            if line.source is not None
        )

    def _make(self, targets: tuple[Endpoint, ...]) -> Make | None:
        via = self._line.options.via
        if via is not None:
            entries = tuple(target.kind.entry for target in targets)
            function = load_via(self._scope, via, (*self._line.path, "via"), self._source.kind.entry, entries)
            return None if function is None else make_by_code(function, via, entries)
        if not targets:
            return make_nothing
        spells = self._scope.branches[targets[0].instance].spells
        built_in = conversion(self._source.kind.entry, targets[0].kind.entry, spells)
        assignments = self._assignments(targets[0], built_in)
        return make_by_fields(targets[0].kind.entry, assignments, built_in)

    def _assignments(self, target: Endpoint, built_in: Conversion | None) -> tuple[Assignment, ...]:
        wanted = _fields_of(target.kind)
        mapped = self._line.options.map
        assignments: list[Assignment] = []
        for name in mapped.keys() - wanted.keys():
            message = f"`{target.kind.name}` has no field `{shown(name)}`"
            self._note("E303", message, suggest(name, tuple(wanted)), (*self._line.path, "map", name), key=True)
        missing: list[str] = []
        for name, field in wanted.items():
            if name in mapped:
                assignment = self._mapped(target, name, field)
            elif name in self._fields:
                assignment = self._same(target, name, field)
            else:
                assignment = None
                if field.required and not (built_in and name in built_in.fills):
                    missing.append(name)
            if assignment is not None:
                assignments.append(assignment)
        if missing:
            fields = ", ".join(f"`{name}`" for name in missing)
            message = f"`{target.kind.name}` needs {fields}, which `{self._source.kind.name}` does not have"
            mapping = ", ".join(f"{name}: …" for name in missing)
            self._note("E301", message, self._map_hint(target, mapping), self._where)
        return tuple(assignments)

    def _same(self, target: Endpoint, name: str, field: FieldInfo) -> Assignment | None:
        """The field of the same name."""
        source = self._fields[name]
        match _fit(source.type, field.type):
            case Fit.DIRECT:
                return Assignment(field.name, _never, None, source.name)
            case Fit.CONVERTED:
                return Assignment(field.name, compile_expression(name, self._source.kind.entry).read, field.type)
            case _:
                message = (
                    f"`{self._source.kind.name}.{name}` is {_type_name(source.type)}, "
                    f"`{target.kind.name}.{name}` wants {_type_name(field.type)}"
                )
                self._note("E302", message, self._map_hint(target, f"{name}: …"), self._where)
                return None

    def _mapped(self, target: Endpoint, name: str, field: FieldInfo) -> Assignment | None:
        """The field with an expression of its own."""
        value, path = self._line.options.map[name], (*self._line.path, "map", name)
        expression = self._expression(value, path)
        if expression is None:
            return None
        if name == _MEANT and not expression.reads <= _OWN_IDS:
            message = f"`{target.kind.name}.{name}` says which question or call is meant, and must not come from text"
            self._note("E307", message, "write `record.id`, or `record.correlation_id`", path)
            return None
        wants = f"`{target.kind.name}.{name}` wants {_type_name(field.type)}"
        if expression.constant:
            return self._constant(expression, field, wants, path)
        if expression.type is None:
            return Assignment(field.name, expression.read, field.type)
        fits = fit(expression.type, mi.type_info(field.type))
        if fits is Fit.NEVER and expression.field is None and isinstance(expression.type, mi.UnionType):
            fits = max(fit(member, mi.type_info(field.type)) for member in expression.type.types)
            fits = min(fits, Fit.CONVERTED)  # what may be missing in an envelope is almost always there
        if fits is Fit.NEVER:
            kind = _type_name(self._fields[expression.text.strip()].type) if expression.field else "something else"
            self._note("E302", f"`{shown(value)}` is {kind}, {wants}", "give it another value", path)
            return None
        return Assignment(
            field.name,
            expression.read,
            None if fits is Fit.DIRECT else field.type,
            expression.field if fits is Fit.DIRECT else None,
        )

    def _constant(self, expression: Expression, field: FieldInfo, wants: str, path: Path) -> Assignment | None:
        value = expression.read(_NO_RECORD)
        try:
            if fits_value(value, mi.type_info(field.type)):
                value = msgspec.convert(value, field.type)
                return Assignment(field.name, partial(_always, value))
            reason = ""
        except msgspec.ValidationError as error:
            reason = f" ({error})"
        self._note("E302", f"`{shown(expression.text)}` does not fit: {wants}{reason}", "give it another value", path)
        return None

    def _condition(self) -> Expression | None:
        when = self._line.options.when
        if when is None or self._line.silent:
            return None
        path = (*self._line.path, "when")
        expression = self._expression(when, path)
        if expression is None:
            return None
        wrong = expression.constant and not isinstance(expression.read(_NO_RECORD), bool)
        if wrong or (expression.type is not None and fit(expression.type, mi.BoolType()) is Fit.NEVER):
            message = f"`{shown(when)}` is neither true nor false"
            self._note("E306", message, "compare it with something, e.g. `origin == 'discord'`", path)
            return None
        return expression

    def _expression(self, value: Any, path: Path) -> Expression | None:
        try:
            return compile_expression(value, self._source.kind.entry)
        except ExpressionError as error:
            self._note(error.code, str(error), error.hint, path, inside=(str(value), error.offset))
            return None

    def _fault_assignments(self, fault: Endpoint) -> tuple[Assignment, ...]:
        """The fields of the fault: of the same name, as they are; `error` and `code` are given."""
        assignments: list[Assignment] = []
        path = (*self._line.path, "fault")
        for name, field in _fields_of(fault.kind).items():
            if name in _GIVEN_TO_FAULTS:
                if _fit(str, field.type) is not Fit.DIRECT:
                    message = f"`{fault.kind.name}.{name}` is {_type_name(field.type)}; the router gives text"
                    self._note("E302", message, "route faults to a kind that takes texts", path)
                continue
            source = self._fields.get(name)
            if source is not None and _fit(source.type, field.type) is Fit.DIRECT:
                assignments.append(Assignment(field.name, _never, None, source.name))
            elif field.required:
                message = f"`{fault.kind.name}` needs `{name}`, which `{self._source.kind.name}` cannot give"
                self._note("E301", message, "a fault has fields of the source, `error` and `code`", path)
        return tuple(assignments)

    def _map_hint(self, target: Endpoint, mapping: str) -> str:
        if self._line.path in self._scope.document.spans and self._where == self._line.text_path:
            return f"map: {{{mapping}}}"
        names = self._scope.written
        return f"- route: {names(self._source)} -> {names(target)}\n  map: {{{mapping}}}"

    def _note(
        self,
        code: str,
        message: str,
        hint: str,
        path: Path,
        *,
        key: bool = False,
        inside: tuple[str, int] | None = None,
    ) -> None:
        self._broken = True
        self._scope.document.add(code, message, hint, at=path, key=key, inside=inside)


def _fields_of(kind: Kind) -> Mapping[str, FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(kind.entry)}


def _fit(source: Any, target: Any) -> Fit:
    return fit(mi.type_info(source), mi.type_info(target))


def _type_name(wanted: Any) -> str:
    """A type as Python writes it, without what `Annotated` adds."""
    if hasattr(wanted, "__metadata__"):
        return _type_name(get_args(wanted)[0])
    return wanted.__name__ if isinstance(wanted, type) and not get_args(wanted) else str(wanted).replace("typing.", "")


def _always(value: Any, record: Any) -> Any:
    return value


def _never(record: Any) -> Any:
    """The reader of a field that is copied: nobody calls it."""
    raise AssertionError(record)


_NO_RECORD: Any = None
