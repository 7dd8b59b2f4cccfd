"""Payloads that cannot be changed: JSON values, immutable all the way down."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn, cast

import msgspec

from policies._errors import InvalidPayload

MAX_DEPTH: Final = 100
_SCALARS: Final = frozenset({str, int, bool, type(None)})
_encoder = msgspec.json.Encoder(order="sorted")
_set: Callable[[dict[str, Any], str, Any], None] = dict[str, Any].__setitem__


class FrozenDict(dict[str, Any]):
    """A dict that refuses every change. Made by `freeze`; JSON encoders take it for the dict that it is."""

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a payload is immutable; make a new one")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = _refuse
    setdefault = update = _refuse  # pyright: ignore[reportAssignmentType]

    def __hash__(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return hash(frozenset(self.items()))

    def __copy__(self) -> FrozenDict:
        return self

    def __deepcopy__(self, _: object) -> FrozenDict:
        return self


def freeze(value: object, depth: int = MAX_DEPTH) -> Any:
    """The value with dicts frozen and lists as tuples. Raises `InvalidPayload` for what JSON cannot hold."""
    kind = type(value)
    if kind in _SCALARS or kind is FrozenDict:
        return value
    if depth == 0:
        raise InvalidPayload(f"it is nested deeper than {MAX_DEPTH} levels")
    if kind is dict or isinstance(value, Mapping):
        frozen = FrozenDict(cast("Mapping[str, Any]", value))
        for key, item in frozen.items():
            if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InvalidPayload(f"the key {key!r} is not a string")
            if type(item) not in _SCALARS:
                _set(frozen, key, freeze(item, depth - 1))
        return frozen
    if isinstance(value, list | tuple):
        items = cast("Sequence[object]", value)
        return tuple([item if type(item) in _SCALARS else freeze(item, depth - 1) for item in items])
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidPayload(f"{value} is not a JSON number")
        return value
    raise InvalidPayload(f"{kind.__name__} is not a JSON value; use dict, list, str, int, float, bool or None")


def fingerprint(payload: Mapping[str, Any]) -> str:
    """A hash of the payload's canonical JSON: equal payloads have equal ones, whatever the order of their keys."""
    return hashlib.blake2b(_encoder.encode(payload), digest_size=12).hexdigest()
