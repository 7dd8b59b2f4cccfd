"""Leaves: those of the catalogue by name, those of the user by file."""

from __future__ import annotations

from typing import Any

import msgspec

from branches.catalogue import LeafInfo, LeafKind
from covenants.checks.scope import LeafSection, Scope
from covenants.checks.shapes import wrong_shape
from covenants.document import Path
from covenants.model import Leaf
from covenants.problems import shown, suggest
from covenants.shape import INVALID, Shaper
from covenants.usercode import UserCodeError, load_object


def resolve_leaf(
    scope: Scope,
    instance: str,
    kind: LeafKind,
    name: str,
    use: Any,
    value: Any,
    path: Path,
    *,
    named_at: str | None = None,
    others: tuple[str, ...] = (),
) -> Leaf | None:
    """The leaf of this name with its options, or None with the problem noted.

    `value` are its options as they are written; they stand at `path` itself for a substrate, else below `options`.
    `others` are names that are possible here and are no leaves.
    """
    known = scope.catalogue.of(kind)
    where = path if named_at is None else (*path, named_at)
    options_path = path if named_at is None else (*path, "options")
    if use is not None:
        info = _user_leaf(scope, kind, name, use, (*path, "use"))
    else:
        info = known.get(name)
        if info is None:
            message = f"there is no {kind} leaf `{shown(name)}`"
            hint = f"{suggest(name, (*others, *known))} (user code is named by `use: file.py:Name`)"
            scope.document.add("E115", message, hint, at=where, key=named_at is None)
    if info is None and kind is LeafKind.SUBSTRATE:
        scope.unread.add(name)
    leaf = None if info is None else Leaf(info, _options(scope, info, value, options_path))
    scope.sections.append(LeafSection(options_path, value, leaf, scope.runs_here(instance)))
    return leaf


def _options(scope: Scope, info: LeafInfo, value: Any, path: Path) -> msgspec.Struct | None:
    if info.options is None:
        if value:
            hint = "remove them"
            scope.document.add("E110", f"the leaf `{info.name}` has no options", hint, at=path, key=True)
        return None
    built = Shaper(scope.document, scope.environ).build(info.options, {} if value is None else value, path)
    return None if built is INVALID else built


def _user_leaf(scope: Scope, kind: LeafKind, name: str, use: Any, path: Path) -> LeafInfo | None:
    """What a class of the user's says about itself: its `Options`, and `spells` and `trust` of a substrate."""
    if not isinstance(use, str):
        scope.document.add("E112", "`use` names user code", "write `use: file.py:Name`", at=path)
        return None
    if not name.isidentifier():
        hint = "use letters, digits and `_`"
        scope.document.add("E113", f"`{shown(name)}` cannot be the name of a leaf", hint, at=path[:-1], key=True)
        return None
    try:
        found = load_object(use, scope.base)
    except UserCodeError as error:
        scope.document.add(error.code, str(error), error.hint, at=path)
        return None
    wrong = wrong_shape(found, kind, name)
    if wrong is not None:
        message, hint = wrong
        scope.document.add("E407", f"`{shown(use)}` {message}", hint, at=path)
        return None
    serves = kind is LeafKind.SUBSTRATE  # what another leaf calls by these names is its own business
    return LeafInfo(
        name=name,
        kind=kind,
        summary=" ".join((found.__doc__ or "").split()),
        factory=f"{found.__module__}:{found.__name__}",
        options=getattr(found, "Options", None),
        spells=tuple(found.spells) if serves else (),
        trust={gate: tuple(brings) for gate, brings in getattr(found, "trust", {}).items()} if serves else {},
        users=True,
    )
