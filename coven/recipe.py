"""What a request from outside is cast with: a configuration, and what the asker wants different in it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

import msgspec

from branches.catalogue import LeafKind
from coven.configuration import COVENANT, ConfigError, services_of, settle, type_of
from covenants import Config, Loaded, Problem, load, load_text
from covenants.problems import suggest
from leaves.catalogue import CATALOGUE

_TOOLS = "tools"
_AUTO = "auto"
_BARE = "bare.yaml"


class CannotCast(Exception):
    """A request that no entity of this configuration can be asked, and what to do about it."""


class CannotServe(Exception):
    """A server that would be open to whoever reaches it."""


class Changes(msgspec.Struct, frozen=True):
    """What stands in place of the file for one agents instance.

    `agents` is its name, where the coven has several; `crystal` a leaf of the catalogue, or `file.py:Name`.
    """

    agents: str | None = None
    crystal: str | None = None
    medium: str | None = None

    @property
    def cantrip(self) -> bool:
        """Whether the entity would have another cantrip than that of the file."""
        return self.crystal is not None or self.medium is not None


class Recipe(msgspec.Struct, frozen=True):
    """A configuration to cast with. `agents` is the instance that answers, `services` are those that it needs.

    A `bare` one is of no file: it is read-only over the current folder, and nothing is kept.
    """

    config: Config
    agents: str
    services: tuple[str, ...]
    warnings: tuple[Problem, ...] = ()
    bare: bool = False
    changed: bool = False


def find_recipe(file: Path | None, nats: str | None, changes: Changes) -> Recipe:
    """The recipe of a named file, else of `coven.yaml` here, else the bare one of this folder.

    Raises `ConfigError`, `CannotCast`.
    """
    path = file or Path("coven.yaml")
    if file is None and nats is None and not path.exists():
        return bare_recipe(Path.cwd(), os.environ, changes)
    return recipe_of(path, os.environ, nats=nats, changes=changes)


def recipe_of(
    path: Path, environ: Mapping[str, str], *, nats: str | None = None, changes: Changes | None = None
) -> Recipe:
    """The recipe of a file, in which the chats need not be able to run.

    Raises `ConfigError`, and `CannotCast` for a change that cannot be made.
    """
    return _recipe(load(path, environ), path, nats, changes or Changes(), bare=False)


def bare_recipe(folder: Path, environ: Mapping[str, str], changes: Changes | None = None) -> Recipe:
    """The recipe of a folder without a `coven.yaml`. Raises `CannotCast`."""
    text = files("coven").joinpath("templates", _BARE).read_bytes()
    loaded = load_text(text, environ, name=_BARE, base=folder)
    return _recipe(loaded, Path(_BARE), None, changes or Changes(), bare=True)


def _recipe(loaded: Loaded, path: Path, nats: str | None, changes: Changes, *, bare: bool) -> Recipe:
    if loaded.file is None:
        raise ConfigError(path, loaded.problems)
    types = {name: type_of(name, section) for name, section in loaded.file.branches.items()}
    agents = _instance([name for name, type in types.items() if type == "agents"], changes.agents)
    if changes.cantrip:
        loaded = _changed(loaded, agents, changes)
    needed = [name for name, type in types.items() if type != "chat"]
    configured = settle(loaded, path, nats=nats, instances=needed)
    services = services_of(configured.config, (*needed, COVENANT))
    others = {name for name, type in types.items() if type == "agents" and name != agents}
    return Recipe(
        configured.config,
        agents,
        tuple(name for name in services if not changes.cantrip or name not in others),
        configured.warnings,
        bare,
        changes.cantrip,
    )


def _instance(known: list[str], wanted: str | None) -> str:
    """The name of the agents instance that answers. Raises `CannotCast`."""
    if wanted is not None:
        if wanted not in known:
            raise CannotCast(f"there is no agents instance `{wanted}`; {suggest(wanted, known)}")
        return wanted
    if len(known) == 1 or "agents" in known:
        return "agents" if "agents" in known else known[0]
    if not known:
        raise CannotCast("this coven has no agents; add `agents:` to the branches of its coven.yaml")
    raise CannotCast(f"this coven has several agents; say which one answers with --agents: {', '.join(known)}")


def _changed(loaded: Loaded, agents: str, changes: Changes) -> Loaded:
    """The file with the changes in it. Raises `CannotCast`."""
    assert loaded.file is not None
    branches: dict[str, Any] = dict(loaded.file.branches)
    section = dict(cast("dict[str, Any]", branches[agents] or {}))
    if changes.crystal is not None:
        section.pop("use", None)
        section.pop("options", None)
        section |= _crystal(changes.crystal)
    if changes.medium is not None:
        mediums = (_TOOLS, *CATALOGUE.of(LeafKind.MEDIUM))
        if changes.medium not in mediums:
            raise CannotCast(f"there is no medium `{changes.medium}`; {suggest(changes.medium, mediums)}")
        section["circle"] = {**(section.get("circle") or {}), "medium": changes.medium}
    branches[agents] = section
    return msgspec.structs.replace(loaded, file=msgspec.structs.replace(loaded.file, branches=branches))


def _crystal(wanted: str) -> dict[str, str]:
    """The keys of an agents section that name this crystal. Raises `CannotCast`."""
    file, colon, name = wanted.rpartition(":")
    if colon and file.endswith(".py"):
        return {"crystal": name, "use": f"{Path(file).resolve()}:{name}"}
    known = (_AUTO, *CATALOGUE.of(LeafKind.CRYSTAL))
    if wanted not in known:
        raise CannotCast(f"there is no crystal `{wanted}`; {suggest(wanted, known)}; one of yours: file.py:Name")
    return {"crystal": wanted}
