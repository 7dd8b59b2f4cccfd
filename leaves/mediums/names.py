"""How gates are named and called in code: the same rules for every language."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, cast

import msgspec

from branches.agents.gates import DONE, GateDefinition

SUGAR = "submit_answer"
"""Another word for `done` in code."""


class CodeGate(msgspec.Struct, frozen=True):
    """A gate and where code finds it: `path` is one identifier, or a namespace and what stands in it."""

    path: tuple[str, ...]
    definition: GateDefinition

    @property
    def name(self) -> str:
        """The expression that reaches it."""
        return ".".join(self.path)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of its arguments, in the order in which positional ones are taken."""
        return tuple(_properties(self.definition))

    @property
    def signature(self) -> str:
        """How it is called, e.g. `fs.read_text(path, limit?)`."""
        required = _required(self.definition)
        return f"{self.name}({', '.join(p if p in required else f'{p}?' for p in self.parameters)})"


def code_gates(gates: Sequence[GateDefinition], reserved: AbstractSet[str]) -> tuple[CodeGate, ...]:
    """Where code finds each gate: every gate has its own place, whatever it is called, and `done` has two (D-003).

    A name that is no identifier, that the language keeps for itself, or that is taken gets underscores or a number
    (`get-weather` is `get_weather`); a dotted one is a namespace, unless a part of it is a gate itself.
    """
    whole = {_identifier(gate.name, reserved) for gate in gates if "." not in gate.name}
    taken: set[tuple[str, ...]] = set()
    placed: list[CodeGate] = []
    for gate in sorted(gates, key=lambda gate: _identifier(gate.name, reserved) != gate.name):  # exact names come first
        path = _path(gate.name, whole, reserved)
        number, plain = 1, _identifier(gate.name, reserved)
        while _clashes(path, taken):
            path = (plain if number == 1 else f"{plain}_{number}",)
            number += 1
        taken.add(path)
        placed.append(CodeGate(path, gate))
    done = next((gate for gate in placed if gate.definition.name == DONE.name), None)
    if done is not None and not _clashes((SUGAR,), taken):
        placed.append(CodeGate((SUGAR,), done.definition))
    return tuple(placed)


def bind(gate: CodeGate, positional: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name. Raises `TypeError` for what fits no parameter.

    Positional arguments take the parameters in order. A single object whose keys are parameters is taken as all the
    arguments, and one that comes last as the rest of them (`call_agent("x", {max_depth: 2})`).
    """
    parameters, values = gate.parameters, list(positional)
    rest: Mapping[str, Any] = keywords
    if values and not keywords and _fits(values[-1], gate.definition, parameters[len(values) - 1 :], len(values) == 1):
        rest = cast("Mapping[str, Any]", values.pop())
    if len(values) > len(parameters):
        takes = f"{len(parameters)} ({', '.join(parameters)})" if parameters else "none"
        raise TypeError(f"{gate.name} got {len(values)} positional arguments and takes {takes}")
    arguments = dict(zip(parameters, values, strict=False))
    for name, value in rest.items():
        if name in arguments:
            raise TypeError(f"{gate.name} got {name!r} twice")
        if name not in parameters and not _open(gate.definition):
            raise TypeError(f"{gate.name} has no argument {name!r}; it takes: {', '.join(parameters) or 'none'}")
        arguments[name] = value
    return arguments


def lines(gates: Sequence[CodeGate]) -> str:
    """The gates for a crystal: one line each."""
    return "\n".join(f"- {gate.signature}: {' '.join(gate.definition.description.split())}" for gate in gates)


def _properties(gate: GateDefinition) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", gate.parameters.get("properties") or {})


def _required(gate: GateDefinition) -> Sequence[str]:
    return cast("Sequence[str]", gate.parameters.get("required") or ())


def _open(gate: GateDefinition) -> bool:
    """Whether it takes arguments that its schema does not name."""
    return gate.parameters.get("additionalProperties", not _properties(gate)) is not False


def _fits(value: object, gate: GateDefinition, parameters: Sequence[str], only: bool) -> bool:
    """Whether an object is arguments rather than the value of one."""
    if not isinstance(value, dict):
        return False
    keys = set(cast("dict[str, Any]", value))
    if not keys:
        return only and not _required(gate)
    if keys <= set(parameters):
        return True
    return only and _open(gate) and keys >= set(_required(gate))


def _path(name: str, whole: AbstractSet[str], reserved: AbstractSet[str]) -> tuple[str, ...]:
    parts = name.split(".")
    if len(parts) == 1 or not all(parts):
        return (_identifier(name, reserved),)
    path = (_identifier(parts[0], reserved), *(_identifier(part, _UNSPEAKABLE) for part in parts[1:]))
    return (_identifier(name, reserved),) if path[0] in whole else path


def _identifier(name: str, reserved: AbstractSet[str]) -> str:
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name) or "_"
    if plain[0].isdigit():
        plain = f"_{plain}"
    return f"{plain}_" if plain in reserved else plain


def _clashes(path: tuple[str, ...], taken: AbstractSet[tuple[str, ...]]) -> bool:
    return any(path[: len(other)] == other or other[: len(path)] == path for other in taken)


_UNSPEAKABLE_WORDS = """
__proto__ constructor prototype False None True and as assert async await break class continue def del elif else
except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield
"""
_UNSPEAKABLE = frozenset(_UNSPEAKABLE_WORDS.split())
