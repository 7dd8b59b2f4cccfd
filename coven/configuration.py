"""From the path of a `coven.yaml` to a configuration that can run, or the problems that keep it from that."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from branches.secret import Secret
from covenants import Config, Loaded, NatsOptions, Problem, Severity, check, load
from covenants.model import names_server
from leaves.catalogue import CATALOGUE

COVENANT = "covenant"


class ConfigError(Exception):
    """A configuration with errors. `problems` are all of them, warnings included."""

    def __init__(self, path: Path, problems: tuple[Problem, ...]) -> None:
        count = sum(problem.severity is Severity.ERROR for problem in problems)
        super().__init__(f"{path} cannot be used: mend the {'error' if count == 1 else f'{count} errors'} above first")
        self.path, self.problems = path, problems


class NoAddress(Exception):
    """A server was named that cannot be one."""

    def __init__(self, url: str) -> None:
        super().__init__(f"{url!r} is no address of a server; write `embedded`, or `nats://host:4222`")
        self.url = url


class UnknownService(Exception):
    """A service was asked for that the configuration does not have."""

    def __init__(self, name: str, known: Collection[str]) -> None:
        several = "; say `--only` once for each" if "," in name else ""
        super().__init__(f"there is no service {name!r}; this coven has {', '.join(known)}{several}")
        self.name, self.known = name, tuple(known)


class Configured(msgspec.Struct, frozen=True):
    """A configuration, and what is to be said about it before it runs."""

    config: Config
    warnings: tuple[Problem, ...]


def configure(
    path: Path,
    environ: Mapping[str, str],
    *,
    nats: str | None = None,
    only: Collection[str] = (),
    run: bool = True,
) -> Configured:
    """Read and check the file. `nats` replaces its server, `only` names services as `services_of` takes them.

    Without `run` no branch is to be started, so that variables of the environment that branches need may be unset.
    Raises `ConfigError`, `NoAddress`, `UnknownService`.
    """
    loaded = load(path, environ)
    instances = _instances(loaded.file.branches if loaded.file is not None else {}, only) if only else None
    configured = settle(loaded, path, nats=nats, instances=instances if run else ())
    if only:
        services_of(configured.config, only)
    return configured


def settle(
    loaded: Loaded, path: Path, *, nats: str | None = None, instances: Collection[str] | None = None
) -> Configured:
    """Check a file that was read from this path; `instances` are the branches that this process starts.

    Raises `ConfigError`, `NoAddress`.
    """
    checked = check(loaded, CATALOGUE, only=instances)
    config = checked.config
    if config is None:
        raise ConfigError(path, checked.problems)
    if nats is not None:
        config = msgspec.structs.replace(config, nats=_other_server(config.nats, nats, loaded.environ))
    return Configured(config, checked.warnings)


def services_of(config: Config, only: Collection[str] = ()) -> tuple[str, ...]:
    """The services to run: branch instances by their name or that of their type, and `covenant` for the routes.

    All of them without `only`. They come in the order in which they start: what answers before what asks.
    Raises `UnknownService`.
    """
    ordered = [
        *(branch.name for branch in config.of_type("spellcasting")),
        *(branch.name for branch in config.of_type("agents")),
        COVENANT,
        *(branch.name for branch in config.of_type("chat")),
    ]
    if not only:
        return tuple(ordered)
    wanted: set[str] = set()
    for name in only:
        chosen = {name} if name in ordered else {branch.name for branch in config.of_type(name)}
        if not chosen:
            raise UnknownService(name, ordered)
        wanted |= chosen
    return tuple(name for name in ordered if name in wanted)


def _instances(branches: Mapping[str, Any], only: Collection[str]) -> frozenset[str]:
    """The branch instances behind `only`, as far as an unchecked file tells; the covenant alone needs none."""
    types = {name: type_of(name, section) for name, section in branches.items()}
    return frozenset(name for name, type in types.items() if name in only or type in only)


def type_of(name: str, section: Any) -> Any:
    """The type of a branch instance, as an unchecked file says it."""
    return cast("dict[str, Any]", section).get("branch", name) if isinstance(section, dict) else name


def _other_server(options: NatsOptions, url: str, environ: Mapping[str, str]) -> NatsOptions:
    """The given address; how to sign in stays, unless the file had the embedded server. Raises `NoAddress`."""
    if not names_server(url):
        raise NoAddress(url)
    if options.embedded or url == "embedded":
        return NatsOptions(url=Secret(url, environ))
    return msgspec.structs.replace(options, url=Secret(url, environ))
