"""What the benchmarks share: a server, turns of contestants, and a table."""

from __future__ import annotations

import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from typing import Literal, Protocol

import msgspec
from rich.console import Console
from rich.table import Table

from journals import EmbeddedServer, JetStreamStore

Profile = Literal["power", "process"]
Contestant = Callable[[], Awaitable[float]]
_names = count(1)


class HasPid(Protocol):
    """A process, or what runs one."""

    @property
    def pid(self) -> int | None:
        """Its number."""
        ...


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One comparison: our median and another's, and the median of the ratios turn by turn.

    `better` says whether a higher or a lower figure is better; `wanted` is the ratio that we promise.
    """

    benchmark: str
    profile: str
    unit: str
    ours: float
    other: str
    others: float
    ratio: float
    wanted: float | None = None
    better: Literal["higher", "lower"] = "higher"

    @property
    def holds(self) -> bool | None:
        """Whether the promise is kept; None where there is none."""
        if self.wanted is None:
            return None
        return self.ratio >= self.wanted if self.better == "higher" else self.ratio <= self.wanted


@asynccontextmanager
async def running_server(profile: Profile) -> AsyncIterator[EmbeddedServer]:
    """A server of its own for one benchmark, in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="coven-benchmark-") as folder:
        async with EmbeddedServer(Path(folder), durability=profile) as server:
            yield server


@asynccontextmanager
async def fresh_store(server: EmbeddedServer) -> AsyncIterator[JetStreamStore]:
    """A coven that nobody has used."""
    async with await JetStreamStore.connect(server.url, fresh_name(), token=server.token) as store:
        yield store


@contextmanager
def compiled_modules() -> Generator[dict[str, str]]:
    """An environment whose modules are compiled, as those of an installed package are, by the first life."""
    with tempfile.TemporaryDirectory(prefix="coven-benchmark-") as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        yield environment


def fresh_name() -> str:
    """A name that nobody has used in this run."""
    return f"bench{next(_names)}"


async def take_turns(contestants: dict[str, Contestant], rounds: int) -> dict[str, list[float]]:
    """Each contestant once a round, in turn, after one round that does not count."""
    figures: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds + 1):
        for name, contestant in contestants.items():
            figure = await contestant()
            if number:
                figures[name].append(figure)
    return figures


def compare(
    benchmark: str,
    profile: str,
    unit: str,
    figures: dict[str, list[float]],
    wanted: dict[str, float],
    better: Literal["higher", "lower"] = "higher",
) -> list[Result]:
    """Our figures against each of the others'. `wanted` is the promised ratio by the other's name."""
    ours = figures["coven"]
    return [
        Result(
            benchmark=benchmark,
            profile=profile,
            unit=unit,
            ours=statistics.median(ours),
            other=name,
            others=statistics.median(theirs),
            ratio=statistics.median(a / b for a, b in zip(ours, theirs, strict=True)),
            wanted=wanted.get(name),
            better=better,
        )
        for name, theirs in figures.items()
        if name != "coven"
    ]


def alone(
    benchmark: str, profile: str, unit: str, figure: float, limit: float | None = None, other: str = "limit"
) -> Result:
    """A figure with an upper limit, or with none."""
    against = limit or figure
    return Result(
        benchmark=benchmark,
        profile=profile,
        unit=unit,
        ours=figure,
        other=other if limit else "-",
        others=against,
        ratio=figure / against if against else 1.0,
        wanted=1.0 if limit else None,
        better="lower",
    )


def percentile(values: list[float], share: float) -> float:
    """The value below which this share lies."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def cpu_of(process: HasPid | None) -> float:
    """Seconds of processor time that a process has used, e.g. a server; 0 where the system does not tell."""
    try:
        with open(f"/proc/{process.pid}/stat" if process else "", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def show(results: list[Result]) -> None:
    """Print the table."""
    table = Table(title="Coven against the least that the same work needs")
    for column in ("benchmark", "profile", "unit", "Coven", "against", "its figure", "ratio", "promised", ""):
        table.add_column(column, justify="left" if column in ("benchmark", "profile", "unit", "against") else "right")
    for result in results:
        sign = "≥" if result.better == "higher" else "≤"
        promised = "" if result.wanted is None else f"{sign} {result.wanted:g}"
        verdict = {None: "", True: "[green]holds", False: "[red]does not hold"}[result.holds]
        table.add_row(
            result.benchmark,
            result.profile,
            result.unit,
            _number(result.ours),
            result.other,
            _number(result.others),
            f"{result.ratio:.2f}",
            promised,
            verdict,
        )
    Console(width=150).print(table)


def write(results: list[Result], path: Path) -> None:
    """Write the figures as JSON, with what they were measured on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    machine = {"python": platform.python_version(), "system": platform.platform(), "time": time.time()}
    rows = [{**msgspec.to_builtins(result), "holds": result.holds} for result in results]
    path.write_text(json.dumps({"machine": machine, "results": rows}, indent=2) + "\n")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
