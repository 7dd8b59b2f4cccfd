"""A tool turn late in a conversation: the same model, tool and words in Coven, LangGraph and DBOS.

A turn is what a person says, a model call, a tool call, a model call, and the answer. In Coven that is the whole walk
from chat to chat over the journals of three branches; the others do it in one process, between a function's call and
its return. Each contestant has a process of its own, and they take turns at turn 10, 1,000 and 5,000.
"""

from __future__ import annotations

from functools import partial
from statistics import median

from benchmarks import turn_coven, turn_dbos, turn_langgraph
from benchmarks.harness import Profile, Result, alone
from benchmarks.seats import Measured, Seat

_AT = (10, 1000, 5000)
_ROUNDS = 6
_TURNS, _FEW = 20, 2  # a round of those whose turns are long has few of them
_DBOS, _STEPS = "DBOS, a workflow a message", "DBOS, steps alone"
_LANGGRAPH, _ASYNC, _DELTA = "LangGraph, sync", "LangGraph, async", "LangGraph, DeltaChannel (beta)"
_LONG = (_LANGGRAPH, _ASYNC, _DELTA)
_WANTED: dict[int, dict[str, float]] = {
    1000: {_LANGGRAPH: 1.0, _ASYNC: 1.0, _DELTA: 1.0, _DBOS: 1.0, _STEPS: 1.0},
    5000: {_LANGGRAPH: 1 / 3, _ASYNC: 1 / 3, _DELTA: 1 / 3},
}
_CPU = 3.0


async def run(profile: Profile, scale: float) -> list[Result]:
    """Some rounds at each place, contestant by contestant; then where our own time goes."""
    seats = {
        "coven": Seat(turn_coven.play, profile),
        _DBOS: Seat(partial(turn_dbos.play, whole=True)),
        _STEPS: Seat(partial(turn_dbos.play, whole=False)),
        _LANGGRAPH: Seat(turn_langgraph.play, "sync"),
        _ASYNC: Seat(turn_langgraph.play, "async"),
        _DELTA: Seat(turn_langgraph.play, "sync", True),
    }
    results: list[Result] = []
    try:
        for at in _AT:
            if at > 10 and at * scale < 100:
                continue
            place = at if at == 10 else int(at * scale)
            for seat in seats.values():
                seat.ask("advance", place)
            rounds: dict[str, list[Measured]] = {name: [] for name in seats}
            for number in range(_ROUNDS):
                for name, seat in seats.items():
                    measured = seat.measure(_FEW if name in _LONG and at > 10 else _TURNS)
                    if number:
                        rounds[name].append(measured)
            results += _compare(f"turn {place:,}", profile, rounds, _WANTED.get(at, {}))
        own = seats["coven"].measure(max(100, int(1000 * scale)))
        many = len(own.took)
        results += [
            alone("turn, CPU of our process", profile, "ms", own.cpu / many * 1000, _CPU),
            alone("turn, CPU of the server", profile, "ms", own.server_cpu / many * 1000),
            *(alone(f"turn, {what}", profile, "ms", took) for what, took in seats["coven"].ask("hops", 0).items()),
        ]
    finally:
        for seat in seats.values():
            seat.close()
    return results


def _compare(place: str, profile: Profile, rounds: dict[str, list[Measured]], wanted: dict[str, float]) -> list[Result]:
    results: list[Result] = []
    ours = rounds.pop("coven")
    for other, theirs in rounds.items():
        for what, of in (("wall time", _wall), ("CPU", _cpu), ("stored", _stored)):
            if what != "wall time" and other not in (_LANGGRAPH, _DBOS):
                continue
            pairs = [(of(a), of(b)) for a, b in zip(ours, theirs, strict=True)]
            results.append(
                Result(
                    benchmark=f"{place}, {what}",
                    profile=profile,
                    unit="KB" if what == "stored" else "ms",
                    ours=median(a for a, _ in pairs),
                    other=other,
                    others=median(b for _, b in pairs),
                    ratio=median(a / b if b else 0.0 for a, b in pairs),
                    wanted=wanted.get(other) if what == "wall time" else None,
                    better="lower",
                )
            )
    return results


def _wall(measured: Measured) -> float:
    return median(measured.took)


def _cpu(measured: Measured) -> float:
    return (measured.cpu + measured.server_cpu) / len(measured.took) * 1000


def _stored(measured: Measured) -> float:
    return measured.stored / len(measured.took) / 1000
