"""The shape of a leaf of the user's: what a class lacks to be one, found before anything runs."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import msgspec

from branches.catalogue import LeafKind
from branches.spellcasting import Spell
from covenants.checks.trust import BRINGS
from covenants.problems import shown, suggest

Wrong = tuple[str, str]
"""What is wrong with it, and what to do."""

_METHODS: Final = {
    LeafKind.CHAT: ("run", "deliver"),
    LeafKind.CRYSTAL: ("invoke",),
    LeafKind.SUBSTRATE: ("cast", "close"),
}
_GIVEN: Final = {LeafKind.CHAT: ("options", "name")}
_FULL_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\.[A-Za-z0-9_.-]+")


def wrong_shape(found: Any, kind: LeafKind, name: str) -> Wrong | None:
    """Why what `use:` names cannot be a leaf of this kind under this name; None if it can."""
    if not isinstance(found, type):
        return "is no class", "name a class: `use: file.py:Name`"
    wrong = _wrong_methods(found, kind) or _wrong_options(found) or _wrong_making(found, kind)
    if wrong is None and kind is LeafKind.SUBSTRATE:
        wrong = _wrong_spells(found, name) or _wrong_trust(found)
    return wrong


def _wrong_methods(found: type, kind: LeafKind) -> Wrong | None:
    methods = _METHODS.get(kind, ())
    for method in methods:
        function = getattr(found, method, None)
        if not callable(function):
            return f"has no method `{method}`", f"a {kind} leaf has {' and '.join(f'`{each}`' for each in methods)}"
        if inspect.isfunction(function) and not inspect.iscoroutinefunction(inspect.unwrap(function)):
            hint = f"write `async def {method}`; what blocks goes into `await asyncio.to_thread(…)`"
            return f"has a method `{method}` that is not async", hint
    return None


def _wrong_options(found: type) -> Wrong | None:
    options = getattr(found, "Options", None)
    if options is not None and not (isinstance(options, type) and issubclass(options, msgspec.Struct)):
        return "has `Options` that are no msgspec.Struct", "class Options(msgspec.Struct, frozen=True): …"
    return None


def _wrong_making(found: type, kind: LeafKind) -> Wrong | None:
    given = _GIVEN.get(kind, ("options",))
    try:
        inspect.signature(found).bind(*given)
    except TypeError:
        wanted = " and ".join({"options": "its options", "name": "the name of its instance"}[each] for each in given)
        return f"cannot be made with {wanted}", f"def __init__(self, {', '.join(given)}): …"
    except ValueError:  # nothing is known of its signature
        pass
    return None


def _wrong_spells(found: type, name: str) -> Wrong | None:
    spells: Any = getattr(found, "spells", ())
    named = tuple(cast("Iterable[Any]", spells)) if isinstance(spells, Iterable) else ()
    if not named or not all(isinstance(spell, type) and issubclass(spell, Spell) for spell in named):
        return "names no spells", "spells = (MySpell,), each a struct on the base `Spell`"
    seen: dict[str, str] = {}
    for spell in cast("tuple[type[Spell], ...]", named):
        full_name = getattr(spell, "full_name", None)
        if not isinstance(full_name, str) or not _FULL_NAME.fullmatch(full_name):
            given = f"`{shown(full_name)}`" if isinstance(full_name, str) else "no text"
            message = f"has a spell `{spell.__name__}` whose `full_name` is {given}"
            return message, f'full_name = "{name}.{spell.__name__.lower()}"'
        if full_name in seen:
            return f"has two spells `{full_name}`: {seen[full_name]} and {spell.__name__}", "give each its `full_name`"
        seen[full_name] = spell.__name__
        try:
            spell.schema()
        except (TypeError, NameError) as error:
            message = f"has a spell `{full_name}` with an argument that no schema can be made of: {_first_line(error)}"
            return message, "use text, numbers, true or false, lists, mappings, `Literal`, and structs of these"
    return _wrong_substrate(list(seen), name)


def _wrong_substrate(full_names: list[str], name: str) -> Wrong | None:
    others = {full_name: full_name.partition(".")[0] for full_name in full_names}
    if len(set(others.values())) == 1 and name not in others.values():
        (other,) = set(others.values())
        return f"serves `{full_names[0]}`, and stands here as `{name}`", f"call it `{other}:`"
    for full_name, other in others.items():
        if other != name:
            hint = f'full_name = "{name}.{full_name.partition(".")[2]}"'
            return f"serves `{full_name}`, and stands here as `{name}`", hint
    return None


def _wrong_trust(found: type) -> Wrong | None:
    """A word that is not known would silently switch the check of the lethal trifecta off."""
    trust = getattr(found, "trust", {})
    spells = [spell.name() for spell in getattr(found, "spells", ())]
    example = f'trust = {{"{spells[0]}": ("{BRINGS[-1]}",)}}'
    if not isinstance(trust, Mapping):
        return "has a `trust` that is no mapping by spell", example
    for gate, brings in cast("Mapping[Any, Any]", trust).items():
        if gate not in spells:
            return f"says `trust` of `{shown(str(gate))}`, which it does not serve", suggest(str(gate), spells)
        if isinstance(brings, str) or not isinstance(brings, Iterable):
            return f"says `trust` of `{gate}` that is no list of words", example
        for word in cast("Iterable[Any]", brings):
            if word not in BRINGS:
                return f"says `{shown(str(word))}` in its `trust`", suggest(str(word), BRINGS)
    return None


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = next((line for line in lines if "is not supported" in line), lines[0] if lines else "")
    return shown(said, 200)
