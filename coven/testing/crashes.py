"""The crash harness: run a coven, kill it at a named point, run it again, and compare what stands in the journals.

Every journal operation is a fault point, before and after (`<journal>.append.<Kind>.before`, see
`docs/crash-testing.md`). `reached_points` says which ones a run passes; `killed_at` makes the environment that kills
it at one of them; `story` is what must be the same however often a run was killed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from journals import Entry, Record

_ID = re.compile(r"\b(?:approve\.[0-9a-f]{12}\.\d+\.\w+\.)?[0-9a-f]{24}\b")  # that of a route's question has a position
_UNTOLD_KINDS = frozenset({"ServiceChanged", "CovenantApplied", "ChatSettled", "AgentsSettled", "SpellsSettled"})
_MEASURED = ("duration_ms",)


class FaultPoint(NamedTuple):
    """One place where a process can be killed: the n-th time that it passes the point of this name."""

    name: str
    occurrence: int

    def __str__(self) -> str:
        return f"{self.name}:{self.occurrence}"


def reached_points(trace: Path) -> list[FaultPoint]:
    """The points that a run with `COVEN_FAULT_TRACE=<trace>` has passed, in order."""
    passed: Counter[str] = Counter()
    points: list[FaultPoint] = []
    for name in trace.read_text(encoding="utf-8").split():
        passed[name] += 1
        points.append(FaultPoint(name, passed[name]))
    return points


def killed_at(point: FaultPoint, *, pid: int | None = None) -> dict[str, str]:
    """The environment of a run that is killed at this point; with `pid`, that process is killed in its place."""
    victim = {} if pid is None else {"COVEN_FAULT_PID": str(pid)}
    return {"COVEN_FAULT": str(point), **victim}


def story(records: Iterable[Record[Entry]], *, without: Collection[str] = ()) -> list[str]:
    """What happened, a line a record, once times, positions, attempts and lifecycle are taken out.

    Ids derive from positions, so they differ between runs; each is replaced by the number of its first appearance.
    `without` names kinds to leave out. Hand in the records journal by journal, always in the same order.
    """
    untold = _UNTOLD_KINDS | set(without)
    asked: set[Any] = set()
    names: dict[str, str] = {}
    lines: list[str] = []
    for record in records:
        if record.kind in untold:
            continue
        fields: dict[str, Any] = msgspec.to_builtins(record.entry)
        if record.kind == "CrystalCalled":
            turn = (fields["run"], fields["turn"])
            if turn in asked:
                continue  # another attempt of the same turn
            asked.add(turn)
        for part in (fields, fields.get("last") or {}, fields.get("said") or {}):
            for measured in _MEASURED:
                part.pop(measured, None)
        line = msgspec.json.encode(
            [
                record.journal,
                record.session,
                record.lane,
                record.id,
                record.correlation_id,
                record.causation_id,
                record.origin,
                record.route,
                fields,
            ]
        ).decode()
        lines.append(_ID.sub(lambda found: names.setdefault(found.group(), f"#{len(names) + 1}"), line))
    return lines
