"""Secrets and variables: what stands in clear, and what the environment does not have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

from branches.secret import REFERENCE, Secret
from covenants.checks.scope import LeafSection, Scope
from covenants.document import Path
from covenants.leaks import find_secrets, looks_random, names_a_secret

_REFERENCE_LIKE = re.compile(r"(?<!\$)\$\{[^}]*\}?")
_SECRET_IN_ADDRESS = re.compile(r"://[^/\s]*[^/\s:]@")  # a user's name alone, its password a reference, is none
_HINT = "put it into the environment and write `${NAME}` here"


def check_variables(scope: Scope) -> None:
    """Look at every place where `${NAME}` is looked up: the options of leaves, and `nats`."""
    for section in scope.sections:
        for path, value in _texts(section.value, section.path):
            _check_clear(scope, section, path, value)
            _check_references(scope, path, value, needed=section.runs_here)
        if section.runs_here:
            _check_needed(scope, section)
    for path, value in _texts(scope.file.nats, ("nats",)):
        _check_references(scope, path, value, needed=True)
        rest = REFERENCE.sub("", value)
        named = names_a_secret(str(path[-1])) and rest
        if (named or _SECRET_IN_ADDRESS.search(rest)) and not _is_noted(value):
            scope.document.add("E401", "a secret stands here in clear", _HINT, at=path)


def _texts(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            yield from _texts(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(cast("list[Any]", value)):
            yield from _texts(item, (*path, number))


def _check_references(scope: Scope, path: Path, value: str, *, needed: bool) -> None:
    for match in _REFERENCE_LIKE.finditer(value):
        inside = (value, match.start())
        reference = REFERENCE.fullmatch(match[0])
        if reference is None:
            message = f"`{match[0][:40]}` names no variable"
            scope.document.add("E403", message, "a name has letters, digits and `_`: `${NAME}`", at=path, inside=inside)
        elif needed and not scope.environ.get(reference[1]):
            message = f"the environment variable {reference[1]} is not set"
            scope.document.add("E402", message, f"export {reference[1]}=…", at=path, inside=inside)


def _check_clear(scope: Scope, section: LeafSection, path: Path, value: str) -> None:
    """A clear text where the leaf wants a secret, or under a name that promises one."""
    option = next((step for step in reversed(path) if isinstance(step, str)), "")
    if not REFERENCE.sub("", value) or "${" in value or _is_noted(value):
        return
    variables = section.leaf.info.secrets if section.leaf else ()
    wanted = section.leaf and path[:-1] == section.path and isinstance(_option(section, option), Secret)
    if wanted or names_a_secret(option, variables) or looks_random(option, value):
        scope.document.add("E401", f"a secret stands in clear under `{option}`", _HINT, at=path)


def _check_needed(scope: Scope, section: LeafSection) -> None:
    """The variables that a leaf looks up by itself, unless its options name others."""
    leaf = section.leaf
    if leaf is None:
        return
    options = leaf.options.__struct_fields__ if leaf.options is not None else ()
    given = [name for name in options if isinstance(getattr(leaf.options, name), Secret)]
    for variable in leaf.info.secrets:
        # A leaf with one secret may call the option as it likes; one with several calls them as the variables end.
        if any(len(leaf.info.secrets) == 1 or variable.lower().endswith(name) for name in given):
            continue
        if not scope.environ.get(variable):
            message = f"the leaf `{leaf.info.name}` needs the environment variable {variable}, which is not set"
            scope.document.add("E402", message, f"export {variable}=…", at=section.path, key=True)


def _option(section: LeafSection, name: str) -> Any:
    return getattr(section.leaf.options, name, None) if section.leaf else None


def _is_noted(value: str) -> bool:
    """Whether the look at the whole text has found it already, by its shape."""
    return next(find_secrets(value), None) is not None
