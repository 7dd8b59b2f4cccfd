"""The check: everything that is wrong with a configuration, in the order of the file, and the configuration itself."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from branches.catalogue import Catalogue
from branches.secret import Secret
from covenants.checks.answers import check_answers
from covenants.checks.approvals import read_approvals
from covenants.checks.circles import check_circles
from covenants.checks.coverage import check_coverage
from covenants.checks.cycles import check_cycles
from covenants.checks.endpoints import read_lines
from covenants.checks.fields import compile_routes
from covenants.checks.instances import read_branches
from covenants.checks.scope import Scope
from covenants.checks.trifecta import check_trifecta
from covenants.checks.variables import check_variables
from covenants.grammar import PLAIN_NAME
from covenants.loading import Loaded
from covenants.manifests import MANIFESTS, Manifests
from covenants.model import Config, NatsOptions, names_server
from covenants.problems import Problem, Severity, shown
from covenants.shape import INVALID, Shaper
from covenants.transform import Route


class Checked(msgspec.Struct, frozen=True):
    """What a check gives: all problems in the order of the file, and the configuration if none of them is an error."""

    config: Config | None
    problems: tuple[Problem, ...]

    @property
    def errors(self) -> tuple[Problem, ...]:
        """Those that keep the coven from starting."""
        return tuple(problem for problem in self.problems if problem.severity is Severity.ERROR)

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """Those that do not."""
        return tuple(problem for problem in self.problems if problem.severity is Severity.WARNING)


def check(
    loaded: Loaded,
    catalogue: Catalogue,
    *,
    manifests: Manifests = MANIFESTS,
    strict: bool = False,
    only: Collection[str] | None = None,
) -> Checked:
    """Look at a loaded file with the leaves of a catalogue. User code that it names is loaded; nothing else is touched.

    `strict` makes errors of warnings. `only` names the instances that this process starts: variables that the others
    need may be unset. Never raises.
    """
    document = loaded.document.copy()
    if loaded.file is None:
        return Checked(None, tuple(sorted(document.problems)))
    scope = Scope(
        document,
        loaded.file,
        loaded.base,
        loaded.environ,
        catalogue,
        manifests,
        strict,
        None if only is None else frozenset(only),
    )
    _check_name(scope)
    nats = _nats(scope)
    read_branches(scope)
    read_lines(scope)
    read_approvals(scope)
    check_answers(scope)
    check_coverage(scope)
    routes = compile_routes(scope)
    check_cycles(scope)
    check_circles(scope)
    check_trifecta(scope)
    check_variables(scope)
    problems = tuple(sorted(document.problems))
    if nats is None or any(problem.severity is Severity.ERROR for problem in problems):
        return Checked(None, problems)
    return Checked(_config(scope, nats, routes), problems)


def _config(scope: Scope, nats: NatsOptions, routes: tuple[Route, ...]) -> Config:
    return Config(
        coven=scope.file.coven,
        base=scope.base,
        nats=nats,
        durability=scope.file.durability,
        branches=scope.branches,
        routes=routes,
    )


def _check_name(scope: Scope) -> None:
    if not PLAIN_NAME.fullmatch(scope.file.coven):
        message = f"`{shown(scope.file.coven)}` cannot be the name of a coven"
        hint = "use 1 to 64 letters, digits, `-` and `_`, beginning with a letter or digit"
        scope.document.add("E113", message, hint, at=("coven",))


def _nats(scope: Scope) -> NatsOptions | None:
    value: Any = scope.file.nats
    document = scope.document
    if isinstance(value, str):
        options: Any = NatsOptions(url=Secret(value, scope.environ))
        where = ("nats",)
    else:
        options = Shaper(document, scope.environ).build(NatsOptions, value, ("nats",))
        where = ("nats", "url")
    if options is INVALID:
        return None
    url = options.url.template
    if not names_server(url):
        message = f"`{shown(url)}` is no address of a server"
        document.add("E112", message, "write `embedded`, or `nats://host:4222`", at=where)
    ways = [name for name in ("token", "user", "credentials") if getattr(options, name) is not None]
    if len(ways) > 1:
        document.add(
            "E117", f"{' and '.join(ways)} are two ways to sign in", "keep one", at=("nats", ways[1]), key=True
        )
    if (options.user is None) is not (options.password is None):
        document.add("E117", "`user` and `password` belong together", "add the other one", at=("nats",), key=True)
    if options.embedded and (ways or options.replicas > 1):
        message = "the embedded server is one server and makes its own token"
        document.add("E117", message, "remove `replicas` and what signs in, or name a server", at=("nats",), key=True)
    return options
