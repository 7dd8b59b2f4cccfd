"""The function of a `via:`: it is there, and its signature fits its route."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable
from typing import Any, get_args, get_origin

from covenants.checks.scope import Scope
from covenants.document import Path
from covenants.problems import shown
from covenants.transform import Via
from covenants.usercode import UserCodeError, load_object
from journals import Entry


def load_via(
    scope: Scope, reference: str, path: Path, source: type[Entry], targets: tuple[type[Entry], ...]
) -> Via | None:
    """The function, or None with the problem noted."""
    try:
        function = load_object(reference, scope.base)
    except UserCodeError as error:
        scope.document.add(error.code, str(error), error.hint, at=path)
        return None
    wrong = wrong_signature(function, source, targets)
    if wrong is not None:
        wanted = " | ".join(target.kind() for target in targets)
        name = reference.rpartition(":")[2]
        hint = f"def {name}(entry: {source.kind()}) -> {wanted} | None: …"
        scope.document.add("E407", f"`{shown(reference)}` {wrong}", hint, at=path)
        return None
    return function


def wrong_signature(function: Any, source: type[Entry], targets: tuple[type[Entry], ...]) -> str | None:
    """What is wrong with a function that shall make targets of a source, or None."""
    if not callable(function) or isinstance(function, type):
        return "is no function"
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return "is async; a route is a pure function and waits for nothing"
    if inspect.isgeneratorfunction(function):
        return "is a generator; give a list"
    try:
        signature = inspect.signature(function)
        signature.bind(object())
    except (TypeError, ValueError):
        return "does not take one argument, the entry"
    hints = _hints(function)
    first = next(iter(signature.parameters))
    if first in hints and not _takes(hints[first], source):
        return f"takes {_name(hints[first])}, and this route brings {source.kind()}"
    if "return" in hints and not _gives(hints["return"], targets):
        wanted = " or ".join(target.kind() for target in targets)
        return f"gives {_name(hints['return'])}, and this route wants {wanted}"
    return None


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations that can be understood; one that cannot says nothing."""
    try:
        return typing.get_type_hints(function)
    except (NameError, TypeError, AttributeError, SyntaxError):
        return {}


def _members(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (typing.Union, types.UnionType) else (hint,)


def _takes(hint: Any, source: type[Entry]) -> bool:
    return any(not isinstance(member, type) or issubclass(source, member) for member in _members(hint))


def _gives(hint: Any, targets: tuple[type[Entry], ...]) -> bool:
    """Whether something of what the function may give is possible: an entry, a list of entries, or nothing."""
    for member in _members(hint):
        if member is type(None):
            continue
        origin = get_origin(member) or member
        if origin is list:
            arguments = get_args(member)
            if not arguments or _gives(arguments[0], targets):
                return True
        elif not isinstance(origin, type) or any(issubclass(t, origin) or issubclass(origin, t) for t in targets):
            return True
    return all(member is type(None) for member in _members(hint)) and len(_members(hint)) > 1


def _name(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint).replace("typing.", "")
