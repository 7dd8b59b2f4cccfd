"""What leaves there are, said without importing them: names, options, secrets and the spells they serve."""

from __future__ import annotations

from enum import StrEnum
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import msgspec

from branches.place import told
from branches.spellcasting import Spell


class LeafKind(StrEnum):
    """What a leaf stands for."""

    CHAT = "chat"
    CRYSTAL = "crystal"
    SUBSTRATE = "substrate"
    MEDIUM = "medium"


class ExtraMissing(Exception):
    """A package of an optional extra is needed, and not installed."""

    def __init__(self, extra: str, package: str) -> None:
        super().__init__(f"{package} is not installed, which this needs: pip install 'coven-bus[{extra}]'")
        self.extra, self.package = extra, package


class LeafFailed(Exception):
    """A leaf of the user's raised something while it was made."""


class LeafInfo(msgspec.Struct, frozen=True):
    """One leaf. `factory` is `module:name`, imported when the leaf is used and not before.

    `options` is the struct that the YAML of this leaf is checked against, and `folders` and `files` name those of its
    fields that are paths relative to that file; `secrets` are the environment variables it needs; `spells` are what a
    substrate serves; `trust` says what its gates bring into a circle, for the check of the lethal trifecta: any of
    `private`, `untrusted`, `outward`, by spell name, and `trust_if` what they bring besides where an option of that
    name is true; `extra` is the extra of ours that installs the packages `needs`, where it is one. `untaken` is a
    function `module:name` that gives, for the options of a crystal, the options of sampling that its model does not
    take. `users` says that it is no leaf of ours but code of the user's.
    """

    name: str
    kind: LeafKind
    summary: str
    factory: str
    options: type[msgspec.Struct] | None = None
    folders: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    spells: tuple[type[Spell], ...] = ()
    trust: dict[str, tuple[str, ...]] = {}
    trust_if: dict[str, dict[str, tuple[str, ...]]] = {}
    extra: str | None = None
    needs: tuple[str, ...] = ()
    untaken: str | None = None
    users: bool = False

    def trusting(self, options: Any) -> dict[str, tuple[str, ...]]:
        """What the gates of this leaf bring into a circle, by spell name, as it is configured."""
        given = dict(self.trust)
        for option, more in self.trust_if.items():
            if getattr(options, option, False):
                given |= {spell: (*given.get(spell, ()), *brought) for spell, brought in more.items()}
        return given

    def make(self, *arguments: Any) -> Any:
        """The leaf itself. Raises `ExtraMissing`, and `LeafFailed` where code of the user's raises."""
        factory = self.load()
        if not self.users:
            return factory(*arguments)
        try:
            return factory(*arguments)
        except (Exception, SystemExit) as error:  # the boundary to user code: whatever it raises is its own problem
            raise LeafFailed(f"the {self.kind} leaf `{self.name}` could not be made: {told(error)}") from error

    def load(self) -> Any:
        """The leaf's class. Imports its module. Raises `ExtraMissing` where a package that it needs is not there."""
        for package in self.needs:
            if self.extra is not None and find_spec(package) is None:
                raise ExtraMissing(self.extra, package)
        return _load(self.factory)

    def untaken_sampling(self, options: msgspec.Struct | None) -> frozenset[str]:
        """The sampling options that the model does not take. Imports no SDK."""
        return frozenset() if self.untaken is None else _load(self.untaken)(options)


def _load(reference: str) -> Any:
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)


class Catalogue(msgspec.Struct, frozen=True):
    """All leaves that this installation has."""

    leaves: tuple[LeafInfo, ...]

    def of(self, kind: LeafKind) -> dict[str, LeafInfo]:
        """The leaves of one kind by name."""
        return {leaf.name: leaf for leaf in self.leaves if leaf.kind is kind}

    def spells(self) -> dict[str, type[Spell]]:
        """Every spell of every substrate by its full name (`fs.read_text`)."""
        return {spell.name(): spell for leaf in self.leaves for spell in leaf.spells}
