"""What every check sees: the file, what is known of branches and leaves, and how far the routes could be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, NamedTuple

from branches.catalogue import Catalogue
from branches.manifest import Direction, Manifest
from branches.spellcasting import Spell
from covenants.document import Document, Path
from covenants.model import Branch, CovenFile, Leaf, RouteOptions
from covenants.problems import Severity
from covenants.routing import Approval
from covenants.transform import Endpoint

CONSUMED = (Direction.REQUIRES, Direction.ACCEPTS)
COVENANT: Path = ("covenant",)
BRANCHES: Path = ("branches",)


class Line(NamedTuple):
    """One item of the covenant. `source` and `targets` are those that could be resolved.

    `complete` says that all of them could; `silent` that it ends in `nowhere`.
    """

    path: Path
    options: RouteOptions
    source: Endpoint | None
    targets: tuple[Endpoint, ...]
    fault: Endpoint | None
    silent: bool
    complete: bool

    @property
    def text_path(self) -> Path:
        """Where the text `Source -> Target` stands."""
        return (*self.path, "route")

    @property
    def effects(self) -> tuple[tuple[str, tuple[Endpoint, ...]], ...]:
        """The routes that this line stands for, each with its name: of several targets without `via`, one for each."""
        ends = [self.targets] if self.options.via or self.silent else [(target,) for target in self.targets]
        names = [f"{self.source} -> {', '.join(map(str, targets)) or 'nowhere'}" for targets in ends]
        if self.options.name is not None:
            given = self.options.name
            names = [given] if len(ends) == 1 else [f"{given} -> {targets[0]}" for targets in ends]
        return tuple(zip(names, ends, strict=True))


class LeafSection(NamedTuple):
    """The options of one leaf in the file: there `${NAME}` is looked up."""

    path: Path
    value: Any
    leaf: Leaf | None
    runs_here: bool = True


@dataclass(frozen=True)
class Scope:
    """See the module. The lists grow while the file is read, from the branches to the routes."""

    document: Document
    file: CovenFile
    base: FilePath
    environ: Mapping[str, str]
    catalogue: Catalogue
    manifests: Mapping[str, Manifest]
    strict: bool = False
    only: frozenset[str] | None = None
    branches: dict[str, Branch] = field(default_factory=dict[str, Branch])
    sections: list[LeafSection] = field(default_factory=list[LeafSection])
    lines: list[Line] = field(default_factory=list[Line])
    approvals: dict[Path, Approval] = field(default_factory=dict[Path, Approval])
    """Who is asked by which line of the covenant."""
    mentioned: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Instances and kinds that a broken route probably means: nothing more is said about them."""

    unread: set[str] = field(default_factory=set[str])
    """Substrates that are configured and could not be read, so that nobody knows what they serve."""

    def runs_here(self, instance: str) -> bool:
        """Whether the instance is started by this process, so that its variables must be set here."""
        return self.only is None or instance in self.only

    def having(self, kind: str) -> list[Branch]:
        """The instances whose manifest has a kind of this name."""
        return [branch for branch in self.branches.values() if branch.manifest.get(kind)]

    def endpoints(self, *directions: Direction) -> Iterator[Endpoint]:
        """The kinds of all instances that have one of these directions."""
        for branch in self.branches.values():
            for kind in branch.manifest.of(*directions):
                yield Endpoint(branch.name, kind)

    def written(self, endpoint: Endpoint) -> str:
        """The shortest text that names this endpoint in a route."""
        return endpoint.kind.name if len(self.having(endpoint.kind.name)) == 1 else str(endpoint)

    def routes_from(self, endpoint: Endpoint) -> list[Line]:
        """The lines that take this kind from this instance."""
        return [line for line in self.lines if line.source == endpoint]

    def spells(self) -> dict[str, type[Spell]]:
        """Every spell that is known: of the catalogue, and of the user's own substrates."""
        spells = self.catalogue.spells()
        for branch in self.branches.values():
            spells |= branch.spells
        return spells

    def warn(self, code: str, message: str, hint: str, *, at: Path, key: bool = False) -> None:
        """Note a warning; where checking is strict, it is an error."""
        severity = Severity.ERROR if self.strict else Severity.WARNING
        self.document.add(code, message, hint, at=at, key=key, severity=severity)
