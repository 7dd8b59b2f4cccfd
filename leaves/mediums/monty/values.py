"""Values on their way out of the sandbox: JSON where they are, text where they are not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

from leaves.mediums.printed import clean

_WIDEST = 2**63
_DEPTH = 100
_SHOWN = 8


def to_json(value: object, depth: int = _DEPTH) -> Any:
    """The value with JSON's own types. Raises `TypeError` for what JSON does not have."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, int) and type(value) is int:
        if not -_WIDEST <= value < _WIDEST:
            raise TypeError("an int of more than 64 bits cannot be sent as JSON")
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise TypeError(f"{value} cannot be sent as JSON")
        return value
    if depth <= 0:
        raise TypeError("what is nested so deep cannot be sent as JSON")
    if type(value) in (list, tuple):
        return [to_json(item, depth - 1) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        return {_key(key): to_json(item, depth - 1) for key, item in cast("dict[object, object]", value).items()}
    attributes = _dataclass(value)
    if attributes is not None:
        return {name: to_json(item, depth - 1) for name, item in attributes.items()}
    raise TypeError(f"{_name(value)} cannot be sent as JSON")


def shown(value: object, depth: int = _SHOWN) -> str:
    """The value as Python writes it."""
    attributes: Mapping[str, object] | None = getattr(value, "attributes", None)
    if attributes is not None and hasattr(value, "name"):
        inner = ", ".join(f"{name}={shown(item, depth - 1)}" for name, item in attributes.items()) if depth else "..."
        return f"{_name(value)}({inner})"
    if type(value) in (list, tuple, dict):
        return _nested(value, depth) if depth else "..."
    if isinstance(value, type):
        return f"<class '{value.__name__}'>"
    try:
        return clean(repr(value))
    except (ValueError, RecursionError):  # an int of thousands of digits; what is nested without end
        return f"<{_name(value)} that cannot be shown>"


def _nested(value: object, depth: int) -> str:
    if isinstance(value, dict):
        pairs = cast("dict[object, object]", value).items()
        return "{" + ", ".join(f"{shown(key, depth - 1)}: {shown(item, depth - 1)}" for key, item in pairs) + "}"
    items = [shown(item, depth - 1) for item in cast("list[object]", value)]
    if isinstance(value, list):
        return f"[{', '.join(items)}]"
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a key of a dict must be a str to be sent as JSON, not {_name(key)}")
    return clean(key)


def _dataclass(value: object) -> Mapping[str, object] | None:
    """The fields of an instance of one of the entity's dataclasses."""
    return getattr(value, "attributes", None) if getattr(value, "is_dataclass", False) is True else None


def _name(value: object) -> str:
    name = getattr(value, "name", None)
    return clean(name) if isinstance(name, str) and hasattr(value, "attributes") else type(value).__name__
