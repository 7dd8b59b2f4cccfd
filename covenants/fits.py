"""Whether a value of one type can stand where another is wanted, decided before any value exists."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from types import NoneType
from typing import Any, cast

import msgspec.inspect as mi

_EVERYTHING = frozenset({"null", "bool", "int", "float", "str", "array", "object"})
_GIVES: dict[type[mi.Type], frozenset[str]] = {
    mi.NoneType: frozenset({"null"}),
    mi.BoolType: frozenset({"bool"}),
    mi.IntType: frozenset({"int"}),
    mi.FloatType: frozenset({"float"}),
    mi.StrType: frozenset({"str"}),
    mi.BytesType: frozenset({"str"}),
    mi.ByteArrayType: frozenset({"str"}),
    mi.MemoryViewType: frozenset({"str"}),
    mi.DateTimeType: frozenset({"str"}),
    mi.DateType: frozenset({"str"}),
    mi.TimeType: frozenset({"str"}),
    mi.TimeDeltaType: frozenset({"str"}),
    mi.UUIDType: frozenset({"str"}),
    mi.DecimalType: frozenset({"str"}),
    mi.ListType: frozenset({"array"}),
    mi.VarTupleType: frozenset({"array"}),
    mi.TupleType: frozenset({"array"}),
    mi.SetType: frozenset({"array"}),
    mi.FrozenSetType: frozenset({"array"}),
    mi.NamedTupleType: frozenset({"array"}),
    mi.DictType: frozenset({"object"}),
    mi.TypedDictType: frozenset({"object"}),
    mi.DataclassType: frozenset({"object"}),
}
_TAKES_MORE: dict[type[mi.Type], frozenset[str]] = {
    mi.FloatType: frozenset({"int", "float"}),
    mi.DecimalType: frozenset({"int", "float", "str"}),
    mi.DateTimeType: frozenset({"int", "float", "str"}),
    mi.TimeDeltaType: frozenset({"int", "float", "str"}),
}
_UNIFORM = (mi.ListType, mi.VarTupleType, mi.SetType, mi.FrozenSetType)
_CONSTRAINTS = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern", "tz")


class Fit(IntEnum):
    """The worst that can happen."""

    NEVER = 0
    """Some value of the source is certain to be refused."""
    CONVERTED = 1
    """It depends on the value, or it needs to be changed on the way: convert it when it is there."""
    DIRECT = 2
    """Every value fits as it is."""


def fit(source: mi.Type, target: mi.Type) -> Fit:
    """How values of `source` fit where `target` is wanted. A union fits as badly as its worst member."""
    source, target = _bare(source), _bare(target)
    if isinstance(target, mi.AnyType):
        return Fit.DIRECT
    if isinstance(source, mi.AnyType):
        return Fit.CONVERTED
    if isinstance(source, mi.UnionType):
        return min(fit(member, target) for member in source.types)
    if isinstance(target, mi.UnionType):
        return max(fit(source, member) for member in target.types)
    if source == target:
        return Fit.DIRECT
    if not _gives(source) & _takes(target):
        return Fit.NEVER
    if isinstance(source, mi.LiteralType):
        return _fit_literal(source.values, target)
    if type(source) is type(target) and isinstance(target, mi.DictType) and isinstance(source, mi.DictType):
        return min(fit(source.key_type, target.key_type), fit(source.value_type, target.value_type))
    if isinstance(source, _UNIFORM) and isinstance(target, _UNIFORM):
        items = fit(source.item_type, target.item_type)
        return items if type(source) is type(target) else min(items, Fit.CONVERTED)
    if type(source) is type(target) and not _constraints(target) and _constraints(source):
        return Fit.DIRECT
    return Fit.CONVERTED


def fits_value(value: Any, target: mi.Type) -> bool:
    """Whether this very value of a literal has a type that can fit; its range is not looked at."""
    return bool(_kinds_of([value]) & _takes(_bare(target)))


def _bare(node: mi.Type) -> mi.Type:
    while isinstance(node, mi.Metadata):
        node = node.type
    return node


def _constraints(node: mi.Type) -> list[Any]:
    return [value for name in _CONSTRAINTS if (value := getattr(node, name, None)) is not None]


def _fit_literal(values: Iterable[Any], target: mi.Type) -> Fit:
    if isinstance(target, mi.LiteralType):
        inside = [value in target.values for value in values]
        return Fit.DIRECT if all(inside) else Fit.CONVERTED if any(inside) else Fit.NEVER
    plain = isinstance(target, mi.StrType | mi.IntType) and not _constraints(target)
    return Fit.DIRECT if plain else Fit.CONVERTED


def _gives(node: mi.Type) -> frozenset[str]:
    """What the values of a type are in JSON."""
    if isinstance(node, mi.LiteralType):
        return _kinds_of(node.values)
    if isinstance(node, mi.EnumType):
        return _kinds_of(member.value for member in node.cls)
    if isinstance(node, mi.StructType):
        return frozenset({"array" if node.array_like else "object"})
    if isinstance(node, mi.UnionType):
        return frozenset[str]().union(*map(_gives, map(_bare, node.types)))
    return _GIVES.get(type(node), _EVERYTHING)


def _takes(node: mi.Type) -> frozenset[str]:
    """What JSON a type may be made of."""
    if isinstance(node, mi.UnionType):
        return frozenset[str]().union(*map(_takes, map(_bare, node.types)))
    if isinstance(node, mi.LiteralType | mi.EnumType):
        return _gives(node)
    return _TAKES_MORE.get(type(node), _gives(node))


def _kinds_of(values: Iterable[Any]) -> frozenset[str]:
    names: dict[type[Any], str] = {
        NoneType: "null", bool: "bool", int: "int", float: "float", str: "str", list: "array", tuple: "array",
        dict: "object", bytes: "str",
    }  # fmt: skip
    return frozenset(names.get(cast("type[Any]", type(value)), "object") for value in values)
