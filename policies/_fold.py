"""A run as one ledger: a fold of its records, and back from such a ledger to what was recorded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from journals import Entry, Record, derive_id
from policies._action import Action
from policies._codec import Answered, Called, Codec, Marked, Returned, Signalled
from policies._context import EVENT, SLEEP
from policies._entries import (
    EventAwaited,
    PolicyCalled,
    PolicyReturned,
    StepData,
    TimerFired,
    TimerSet,
    VersionMarked,
)
from policies._ledger import Ledger
from policies._step import ACTION_CALL, ACTION_RESULT, Step, action_call

RUNNER: Final = "runner"
"""Who called the root policy."""
VERSION_MARKER: Final = "version_marker"
"""The type of the steps that say which version of its code a run goes by."""


class _Node(msgspec.Struct):
    """A call with what was called inside it."""

    id: str
    action: Action
    children: list[_Node]
    steps: tuple[Step, ...] | None = None


def fold(root_id: str, root: Action, seed: Iterable[Step], records: Sequence[Record[Entry]], codec: Codec) -> Ledger:
    """The ledger of a whole run: what it began with, then every call with what was called inside it and its outcome.

    Calls of one scope stand in the order in which they were first recorded, each with its outcome right behind it, so
    the ledger is the same whichever of several finished first.
    """
    top = _Node(root_id, root, [])
    nodes = {root_id: top}
    signals: dict[str, Step] = {}
    markers: dict[str, int] = {}
    for record in records:
        for said in codec.decode(record):
            match said:
                case Called(call_id, scope, _, Action() as action) if call_id not in nodes:
                    nodes[call_id] = node = _Node(call_id, action, [])
                    nodes[scope].children.append(node)
                case Returned(call_id, steps) if call_id in nodes and nodes[call_id].steps is None:
                    nodes[call_id].steps = steps
                case Signalled(id, _, step):
                    signals[id] = step
                case Answered(call_id, signal):
                    nodes[call_id].steps = (signals[signal],)
                case Marked(name, version):
                    markers[name] = version
                case _:
                    pass
    marked = [
        Step(derive_id(root_id, "version", name), RUNNER, VERSION_MARKER, {"name": name, "version": markers[name]})
        for name in sorted(markers)
    ]
    called, *rest = _steps_of(top, RUNNER)
    return Ledger([*seed, called, *marked, *rest])


def _steps_of(node: _Node, actor: str) -> Iterator[Step]:
    yield action_call(actor, node.action, id=node.id)
    for child in node.children:
        yield from _steps_of(child, node.action.policy)
    if node.steps is None:
        return
    for n, step in enumerate(node.steps):
        yield Step(derive_id(node.id, "step", n), step.actor, step.type, step.payload)
    if not node.steps:
        yield Step(derive_id(node.id, "end"), node.action.policy, ACTION_RESULT)


class Unfolded(msgspec.Struct, frozen=True):
    """What a ledger holds: what the run began with, and the entries of what was recorded, each with its id."""

    seed: tuple[Step, ...]
    entries: tuple[tuple[str, Entry], ...]


def unfold(ledger: Iterable[Step], root_id: str, now: float) -> Unfolded:
    """What a ledger says of this run. One that does not hold its root call is a ledger to begin with.

    An open timer begins anew `now`, in seconds since the epoch: a ledger holds no times.
    """
    steps = tuple(ledger)
    begin = next((n for n, step in enumerate(steps) if step.id == root_id and step.type == ACTION_CALL), None)
    if begin is None:
        return Unfolded(steps, ())
    reader = _Reader(root_id, now)
    for step in steps[begin + 1 :]:
        reader.read(step)
    return Unfolded(steps[:begin], tuple(reader.entries()))


class _Reader:
    """Takes the steps of a folded run apart: which are calls, which are the outcome of which call."""

    def __init__(self, root_id: str, now: float) -> None:
        self._root, self._now = root_id, now
        self._markers: dict[str, Entry] = {}
        self._open: list[str] = []
        self._calls: dict[str, Entry | None] = {}
        self._outcomes: dict[str, list[StepData]] = {}
        self._expected: dict[str, str] = {}
        self._events: list[tuple[str, bool]] = []
        self._began(root_id, None)

    def read(self, step: Step) -> None:
        """Take in the next step."""
        call = self._expected.get(step.id)
        if call is not None:
            outcome = self._outcomes[call]
            if not outcome:
                self._events.append((call, True))
                del self._open[self._open.index(call) :]
            if step.id != derive_id(call, "end"):
                outcome.append(StepData.of(step))
                self._expected[derive_id(call, "step", len(outcome))] = call
        elif step.type == ACTION_CALL and self._open:
            self._events.append((step.id, False))
            self._began(step.id, self._entry(step, self._open[-1]))
        elif step.type == VERSION_MARKER and step.id == derive_id(self._root, "version", step.payload["name"]):
            self._markers[step.id] = VersionMarked(name=step.payload["name"], version=step.payload["version"])

    def entries(self) -> Iterator[tuple[str, Entry]]:
        """Markers, then calls and outcomes in the order of the ledger."""
        yield from self._markers.items()
        for call, is_outcome in self._events:
            entry = self._calls[call]
            if not is_outcome:
                assert entry is not None
                yield call, entry
            elif isinstance(entry, TimerSet):
                yield derive_id(call, "outcome", 0), TimerFired(call=call)
            else:
                yield derive_id(call, "outcome", 0), PolicyReturned(call=call, steps=tuple(self._outcomes[call]))

    def _began(self, call: str, entry: Entry | None) -> None:
        self._calls[call] = entry
        self._outcomes[call] = []
        self._expected[derive_id(call, "step", 0)] = self._expected[derive_id(call, "end")] = call
        self._open.append(call)

    def _entry(self, step: Step, scope: str) -> Entry:
        policy: str = step.payload["policy"]
        payload: Mapping[str, Any] = step.payload["payload"]
        if policy == SLEEP:
            seconds = payload.get("seconds")
            due = payload["until"] if seconds is None else self._now + seconds
            return TimerSet(call=step.id, scope=scope, due=due, seconds=seconds)
        if policy == EVENT:
            timeout_s = payload["timeout_s"]
            due = None if timeout_s is None else self._now + timeout_s
            return EventAwaited(call=step.id, scope=scope, event=payload["event"], timeout_s=timeout_s, due=due)
        return PolicyCalled(call=step.id, scope=scope, policy=policy, payload=dict(payload))
