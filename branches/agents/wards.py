"""Wards: restrictions that the circle enforces, resolved by one pure fold (D-009)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

DEFAULT_DEPTH = 1
NumberT = TypeVar("NumberT", int, float)
Positive = Annotated[int, Meta(ge=1)]
Names = str | tuple[str, ...]
Reach = dict[str, dict[str, str]]


class Ward(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One ward as it is written down. What it leaves out, it does not restrict."""

    max_turns: Annotated[Positive | None, Meta(description="after so many turns an episode is truncated")] = None
    max_seconds: Annotated[
        Annotated[float, Meta(gt=0)] | None, Meta(description="after so many seconds an episode is truncated")
    ] = None
    max_tokens: Annotated[
        Positive | None, Meta(description="tokens of an episode and its children, reserved before each request")
    ] = None
    max_depth: Annotated[
        Annotated[int, Meta(ge=0)] | None, Meta(description="how deep children may have children; 0 allows none")
    ] = None
    remove_gate: Annotated[Names, Meta(description="gates that the circle has, and that are taken away")] = ()
    narrow: Annotated[
        Reach, Meta(description="by gate and argument a pattern that the argument must match: {read: {path: 'data/*'}}")
    ] = {}
    require_done_tool: Annotated[bool, Meta(description="only the gate `done` ends an episode")] = False
    max_cpu_s: Annotated[
        Annotated[float, Meta(gt=0)] | None, Meta(description="seconds that the code of one turn may compute")
    ] = None
    max_memory_mb: Annotated[Positive | None, Meta(description="memory of a sandbox, in MiB")] = None
    max_output_chars: Annotated[Positive | None, Meta(description="characters that code may print in one turn")] = None
    max_gate_calls: Annotated[Positive | None, Meta(description="gate calls that code may make in one turn")] = None


class Wards(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What all wards of a circle come to. `narrow` has every pattern that an argument must match."""

    max_turns: int | None = None
    max_seconds: float | None = None
    max_tokens: int | None = None
    max_depth: int = DEFAULT_DEPTH
    removed: tuple[str, ...] = ()
    narrow: Mapping[str, Mapping[str, tuple[str, ...]]] = {}
    require_done_tool: bool = False
    max_cpu_s: float | None = None
    max_memory_mb: int | None = None
    max_output_chars: int | None = None
    max_gate_calls: int | None = None

    @property
    def truncates(self) -> bool:
        """Whether some ward guarantees that every episode ends (CIRCLE-2)."""
        return self.max_turns is not None or self.max_seconds is not None


def resolve(wards: Iterable[Ward]) -> Wards:
    """Of several numbers the most restrictive holds, of several restrictions all of them."""
    wards = tuple(wards)
    narrow: dict[str, dict[str, tuple[str, ...]]] = {}
    for ward in wards:
        for gate, reach in ward.narrow.items():
            patterns = narrow.setdefault(gate, {})
            for argument, pattern in reach.items():
                patterns[argument] = (*patterns.get(argument, ()), pattern)
    depth = _least(ward.max_depth for ward in wards)
    return Wards(
        max_turns=_least(ward.max_turns for ward in wards),
        max_seconds=_least(ward.max_seconds for ward in wards),
        max_tokens=_least(ward.max_tokens for ward in wards),
        max_depth=DEFAULT_DEPTH if depth is None else depth,
        removed=tuple(dict.fromkeys(name for ward in wards for name in _names(ward.remove_gate))),
        narrow=narrow,
        require_done_tool=any(ward.require_done_tool for ward in wards),
        max_cpu_s=_least(ward.max_cpu_s for ward in wards),
        max_memory_mb=_least(ward.max_memory_mb for ward in wards),
        max_output_chars=_least(ward.max_output_chars for ward in wards),
        max_gate_calls=_least(ward.max_gate_calls for ward in wards),
    )


def _names(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


def _least(numbers: Iterable[NumberT | None]) -> NumberT | None:
    return min((number for number in numbers if number is not None), default=None)
