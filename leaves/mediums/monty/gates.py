"""Gates as Python code sees them: functions and namespaces, put in place anew every turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast, get_args

from branches.agents.medium import GateError
from leaves.mediums.names import CodeGate
from leaves.mediums.printed import clean

_UNFIT = frozenset(("BaseException", "SystemExit", "KeyboardInterrupt", "StopIteration", "SyntaxError"))


class Gates:
    """A namespace of gates, and all that an entity sees of it if it looks at one."""

    def __repr__(self) -> str:
        return "<gates>"


def surface(gates: Sequence[CodeGate]) -> dict[str, Any]:
    """The names that are bound before every turn, with what stands behind them."""
    from pydantic_monty import ClassInstance

    tree: dict[str, Any] = {}
    for gate in gates:
        at = tree
        for part in gate.path[:-1]:
            at = at.setdefault(part, {})
        at[gate.path[-1]] = _stub(gate.name)

    def wrap(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        space, inside = Gates(), cast("dict[str, Any]", value)
        for name, inner in inside.items():
            setattr(space, name, wrap(inner))
        return ClassInstance(space, eager_attrs=tuple(inside))

    return {name: wrap(value) for name, value in tree.items()}


def raised(error: GateError) -> dict[str, Any]:
    """A gate's error as the engine raises it: of its own class where Python has one, else a `RuntimeError`."""
    from pydantic_monty import ExcType

    name, message = clean(error.name), clean(error.message)
    if name in get_args(ExcType) and name not in _UNFIT:
        return {"exc_type": name, "message": message}
    return {"exc_type": "RuntimeError", "message": f"{name}: {message}" if name != "Error" else message}


def missing(name: str, attribute: bool) -> dict[str, Any]:
    """What a call of something gets that is not there."""
    if attribute:
        return {"exc_type": "AttributeError", "message": f"gate not available: there is no {name!r} here"}
    return {"exc_type": "NameError", "message": f"name {name!r} is not defined (gate not available)"}


def _stub(name: str) -> Callable[..., None]:
    def stub(*_: object, **__: object) -> None:
        raise AssertionError("the engine calls the host by name")

    stub.__name__ = name
    return stub
