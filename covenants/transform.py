"""A compiled route: a pure function from a record to the entries that it becomes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import msgspec

from branches.manifest import Kind
from branches.place import told
from covenants.conversions import Conversion
from covenants.expressions import Expression, Reader
from covenants.problems import shown
from covenants.questions import is_for_a_route
from covenants.routing import Approval, TransformFailed
from journals import Entry, Record

Via = Callable[[Any], Any]
Make = Callable[[Record[Any]], list[Entry]]


class Endpoint(NamedTuple):
    """One end of a route: a kind in the journal of a branch instance."""

    instance: str
    kind: Kind

    def __str__(self) -> str:
        return f"{self.instance}.{self.kind.name}"


class Assignment(NamedTuple):
    """How a target's field gets its value: read for each record, and converted to `type` unless that is None."""

    field: str
    read: Reader
    type: Any = None
    copied: str | None = None
    """The source's field, where the value is that field as it is."""


class Route:
    """One route, compiled. The router asks for nothing but what `RoutedBy` has; the rest is for people and pictures."""

    __slots__ = (
        "_condition",
        "_fault",
        "_make",
        "approval",
        "fault_instance",
        "fault_kind",
        "from_beginning",
        "max_hops",
        "name",
        "short_lived",
        "source",
        "source_instance",
        "source_kind",
        "target_instance",
        "targets",
        "via",
        "when",
    )

    def __init__(
        self,
        name: str,
        source: Endpoint,
        targets: tuple[Endpoint, ...],
        make: Make,
        *,
        condition: Expression | None = None,
        fault: tuple[Endpoint, Callable[[Record[Any], TransformFailed], Entry]] | None = None,
        via: str | None = None,
        max_hops: int | None = None,
        from_beginning: bool = False,
        approval: Approval | None = None,
    ) -> None:
        self.name = name
        self.source, self.targets = source, targets
        self.source_instance, self.source_kind = source.instance, source.kind.name
        self.target_instance = targets[0].instance if targets else None
        self.fault_kind = fault[0] if fault else None
        self.fault_instance = fault[0].instance if fault else None
        self.when = condition.text if condition else None
        self.via = via
        self.max_hops = max_hops
        self.from_beginning = from_beginning
        self.approval = approval
        self.short_lived = source.kind.short_lived
        self._make = make
        self._condition = condition.read if condition else None
        self._fault = fault[1] if fault else None

    def __repr__(self) -> str:
        targets = ", ".join(map(str, self.targets)) or "nowhere"
        return f"<Route {self.source} -> {targets}{f' when {self.when}' if self.when else ''}>"

    def apply(self, record: Record[Any]) -> list[Entry]:
        """The entries that this record becomes; none where `when:` says no. Pure. Raises `TransformFailed`."""
        if self._condition is not None:
            answer = self._condition(record)
            if answer is not True:
                if answer is False:
                    return []
                raise TransformFailed("expression", f"`{self.when}` gave {shown(answer)}, which is not true or false")
        return self._make(record)

    def fault(self, record: Record[Any], failure: TransformFailed) -> Entry:
        """The entry of its `fault:` kind for a failure of this record. Raises the failure where it has none."""
        if self._fault is None:
            raise failure
        return self._fault(record, failure)


def make_by_fields(target: type[Entry], assignments: tuple[Assignment, ...], conversion: Conversion | None) -> Make:
    """Make the target of assigned fields. Those that fit as they are cost an attribute read each."""
    copies = tuple((each.field, each.copied) for each in assignments if each.copied is not None)
    others = tuple(each for each in assignments if each.copied is None)
    complete = conversion.complete if conversion else None

    def make(record: Record[Any]) -> list[Entry]:
        entry = record.entry
        fields = {field: getattr(entry, source) for field, source in copies}
        for field, read, type, _ in others:
            value = read(record)
            fields[field] = value if type is None else _converted(value, type, field)
        if complete is not None:
            fields = complete(entry, fields)
        return [target(**fields)]

    return make


def make_by_code(via: Via, name: str, targets: tuple[type[Entry], ...]) -> Make:
    """Make the targets by a function of the user's. What it gives is validated as if it had been read."""

    def make(record: Record[Any]) -> list[Entry]:
        try:
            made = via(record.entry)
        except Exception as error:  # the boundary to user code: what it raises is a failure of this route
            raise TransformFailed("via", f"{name} raised {told(error)}") from error
        if made is None:
            return []
        entries = cast("list[Any]", made) if isinstance(made, list) else [made]
        return [_validated(entry, name, targets) for entry in entries]

    return make


def make_text_only(make: Make) -> Make:
    """Make what `make` does of chunks of text, and nothing of those of a thought."""

    def make_text(record: Record[Any]) -> list[Entry]:
        return [] if record.entry.thought else make(record)

    return make_text


def not_for_a_route(make: Make, condition: Expression | None) -> tuple[Make, Expression | None]:
    """The same, but nothing of an answer to what a route has asked, whatever it would be."""

    def make_others(record: Record[Any]) -> list[Entry]:
        return [] if is_for_a_route(record) else make(record)

    if condition is None:
        return make_others, None
    read = condition.read

    def read_others(record: Record[Any]) -> Any:
        return False if is_for_a_route(record) else read(record)

    return make_others, condition._replace(read=read_others)


def make_nothing(record: Record[Any]) -> list[Entry]:
    """What `nowhere` makes of a record."""
    return []


def make_fault(
    fault: type[Entry], assignments: tuple[Assignment, ...]
) -> Callable[[Record[Any], TransformFailed], Entry]:
    """Make the fault of a record: fields of its own name, and `error` and `code` of the failure."""
    copies = tuple((each.field, each.copied) for each in assignments if each.copied is not None)
    own = {"error": str, "code": _code}
    given = tuple((name, give) for name, give in own.items() if name in fault.__struct_fields__)

    def make(record: Record[Any], failure: TransformFailed) -> Entry:
        entry = record.entry
        fields = {field: getattr(entry, source) for field, source in copies}
        return fault(**fields, **{name: give(failure) for name, give in given})

    return make


def _code(failure: TransformFailed) -> str:
    return failure.code


def _converted(value: Any, wanted: Any, field: str) -> Any:
    try:
        return msgspec.convert(msgspec.to_builtins(value), wanted)
    except (msgspec.ValidationError, TypeError, ValueError, RecursionError) as error:
        raise TransformFailed("bad_value", f"`{field}` cannot be {shown(value)}: {error}") from None


def _validated(entry: Any, name: str, targets: tuple[type[Entry], ...]) -> Entry:
    target = next((target for target in targets if type(entry) is target), None)
    if target is None:
        wanted = " or ".join(target.kind() for target in targets)
        raise TransformFailed("via", f"{name} gave a {type(entry).__name__}; this route takes {wanted}")
    try:
        return msgspec.convert(msgspec.to_builtins(entry), target)
    except (msgspec.ValidationError, TypeError, ValueError, RecursionError) as error:
        raise TransformFailed("via", f"{name} gave a {target.kind()} that is not valid: {error}") from None
