"""The branch instances: their names, their types, their options and their leaves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import msgspec

from branches.agents.options import AgentsOptions
from branches.catalogue import LeafKind
from branches.chat.options import ChatOptions
from branches.spellcasting.options import spellcasting_options
from covenants.checks.leaves import resolve_leaf
from covenants.checks.scope import BRANCHES, Scope
from covenants.document import Path
from covenants.grammar import PLAIN_NAME
from covenants.model import Branch, Leaf
from covenants.problems import shown, suggest
from covenants.shape import INVALID, Shaper

AUTO = "auto"
_RESERVED = ("nowhere", "covenant", "dead-letters", "system", "coven")
_CHUNKS = "-chunks"  # the short-lived journal beside an instance's own

Section = dict[str, Any]


def read_branches(scope: Scope) -> None:
    """Fill `scope.branches` with every instance that can be understood."""
    if not scope.file.branches:
        scope.document.add("E111", "no branch is configured", "add `chat:`, `agents:`, `spellcasting:`", at=BRANCHES)
    for name, value in scope.file.branches.items():
        path = (*BRANCHES, name)
        _check_name(scope, name, path)
        if value is not None and not isinstance(value, dict):
            scope.document.add("E112", f"the options of `{shown(name)}` are a mapping", "e.g. `leaf: console`", at=path)
            continue
        section = dict(cast("Section", value or {}))
        type = _type_of(scope, name, section, path)
        if type is not None:
            branch = _BUILD[type](scope, name, section, path)
            scope.branches[name] = branch


def _check_name(scope: Scope, name: str, path: Path, what: str = "a branch") -> None:
    if not PLAIN_NAME.fullmatch(name):
        message = f"`{shown(name)}` cannot be the name of {what}"
        hint = "use 1 to 64 letters, digits, `-` and `_`, beginning with a letter or digit"
        scope.document.add("E113", message, hint, at=path, key=True)
    elif name in _RESERVED or name.endswith(_CHUNKS):
        scope.document.add(
            "E113", f"`{name}` is a name that Coven uses itself", "choose another one", at=path, key=True
        )


def _type_of(scope: Scope, name: str, section: Section, path: Path) -> str | None:
    known = tuple(type for type in scope.manifests if type in _BUILD)
    if "branch" in section:
        type = section.pop("branch")
        if type in known:
            return cast("str", type)
        hint = suggest(shown(type), known)
        scope.document.add("E114", f"there is no branch `{shown(type)}`", hint, at=(*path, "branch"))
        return None
    if name in known:
        return name
    hint = f"{suggest(name, known)}; an instance with a name of its own says what it is: `branch: agents`"
    scope.document.add("E114", f"there is no branch `{shown(name)}`", hint, at=path, key=True)
    return None


def _chat(scope: Scope, name: str, section: Section, path: Path) -> Branch:
    use = section.pop("use", None)
    options = _options(scope, ChatOptions, section, path)
    found = resolve_leaf(
        scope, name, LeafKind.CHAT, options.leaf, use, section.get("options"), path, named_at="leaf", others=()
    )
    return _branch(scope, name, "chat", options, [found])


def _agents(scope: Scope, name: str, section: Section, path: Path) -> Branch:
    others = _crystals(scope, name, section.get("crystals"), (*path, "crystals"))
    return msgspec.structs.replace(_agents_with_crystal(scope, name, section, path), crystals=others)


def _crystals(scope: Scope, name: str, given: Any, path: Path) -> dict[str, Leaf]:
    """The other crystals of an agents instance, by their names there: each the name of a leaf, or that with options."""
    found: dict[str, Leaf] = {}
    for own, value in cast("Section", given).items() if isinstance(given, dict) else ():
        where = (*path, own)
        _check_name(scope, own, where, "a crystal")
        named = cast("dict[Any, Any]", value) if isinstance(value, dict) else {value: None}
        if len(named) != 1 or not isinstance(next(iter(named)), str):
            hint = "e.g. `anthropic`, or `{anthropic: {model: …}}`"
            scope.document.add("E112", f"`{shown(own)}` is one crystal", hint, at=where, key=True)
            continue
        ((crystal, options),) = named.items()
        if crystal == AUTO:
            message = f"`{shown(own)}` cannot be `auto`, which may be another model at each start"
            scope.document.add("E117", message, "name it: `anthropic`, or `{anthropic: {…}}`", at=where, key=True)
            continue
        options = dict(cast("Section", options)) if isinstance(options, dict) else options
        use = cast("Section", options).pop("use", None) if isinstance(options, dict) else None
        at = (*where, crystal) if isinstance(value, dict) else where
        leaf = resolve_leaf(scope, name, LeafKind.CRYSTAL, crystal, use, options, at)
        if leaf is not None:
            found[own] = leaf
    return found


def _agents_with_crystal(scope: Scope, name: str, section: Section, path: Path) -> Branch:
    if isinstance(section.get("crystal"), dict):
        return _agents_with_options(scope, name, section, path)
    use, leaf_options = section.pop("use", None), section.pop("options", None)
    options = _options(scope, AgentsOptions, section, path)
    if options.crystal == AUTO and use is None:
        if leaf_options:
            message = "options belong to a crystal, and `auto` names none"
            scope.document.add("E117", message, "name it: `crystal: …`", at=(*path, "options"), key=True)
        return _branch(scope, name, "agents", options, [])
    found = resolve_leaf(
        scope, name, LeafKind.CRYSTAL, options.crystal, use, leaf_options, path, named_at="crystal", others=(AUTO,)
    )
    return _branch(scope, name, "agents", options, [found])


def _agents_with_options(scope: Scope, name: str, section: Section, path: Path) -> Branch:
    """A crystal with its options below its name: `crystal: {anthropic: {model: …}}`."""
    where = (*path, "crystal")
    named = cast("Section", section.pop("crystal"))
    crystal, value = next(iter(named.items()), (AUTO, None))
    options = _options(scope, AgentsOptions, {**section, "crystal": str(crystal)}, path)
    if len(named) != 1:
        scope.document.add(
            "E112", "`crystal` names one crystal", "write `crystal: {anthropic: {…}}`", at=where, key=True
        )
        return _branch(scope, name, "agents", options, [])
    if crystal == AUTO:
        message = "options belong to a crystal, and `auto` names none"
        scope.document.add("E117", message, "name it: `crystal: {anthropic: {…}}`", at=(*where, AUTO), key=True)
        return _branch(scope, name, "agents", options, [])
    given = dict(cast("Section", value)) if isinstance(value, dict) else value
    use = cast("Section", given).pop("use", None) if isinstance(given, dict) else None
    found = resolve_leaf(
        scope, name, LeafKind.CRYSTAL, str(crystal), use, given, (*where, str(crystal)), others=(AUTO,)
    )
    return _branch(scope, name, "agents", options, [found])


def _spellcasting(scope: Scope, name: str, section: Section, path: Path) -> Branch:
    leaves: list[Leaf | None] = []
    for substrate, value in section.items():
        options = dict(cast("Section", value)) if isinstance(value, dict) else value
        use = cast("Section", options).pop("use", None) if isinstance(options, dict) else None
        where = (*path, substrate)
        leaves.append(resolve_leaf(scope, name, LeafKind.SUBSTRATE, substrate, use, options, where))
    found = [leaf for leaf in leaves if leaf is not None]
    struct = spellcasting_options({leaf.info.name: leaf.info.options for leaf in found})
    given = {leaf.info.name: leaf.options for leaf in found if leaf.options is not None}
    return _branch(scope, name, "spellcasting", struct(**given), found)


_BUILD = {"chat": _chat, "agents": _agents, "spellcasting": _spellcasting}


def _options(scope: Scope, wanted: Any, section: Section, path: Path) -> Any:
    built = Shaper(scope.document).build(wanted, section, path)
    return wanted() if built is INVALID else built


def _branch(scope: Scope, name: str, type: str, options: msgspec.Struct, leaves: Iterable[Leaf | None]) -> Branch:
    found = {leaf.info.name: leaf for leaf in leaves if leaf is not None}
    return Branch(name=name, type=type, manifest=scope.manifests[type], options=options, leaves=found)
