"""A ledger: one scope's append-only sequence of steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import overload

from policies._snapshot import Snapshot
from policies._step import Step


class Ledger:
    """What happened in one scope. Immutable: appending gives a new ledger, in constant time."""

    __slots__ = ("_steps",)

    def __init__(self, steps: Iterable[Step] = ()) -> None:
        self._steps = steps if isinstance(steps, Snapshot) else Snapshot(list(steps))

    def __repr__(self) -> str:
        return f"<Ledger of {len(self)} steps>"

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps."""
        return tuple(self._steps)

    def append(self, step: Step) -> Ledger:
        """A ledger with one step more."""
        return Ledger(self._steps.plus(step))

    def extend(self, steps: Iterable[Step]) -> Ledger:
        """A ledger with these steps more."""
        grown = self._steps
        for step in steps:
            grown = grown.plus(step)
        return Ledger(grown)

    def __iter__(self) -> Iterator[Step]:
        return iter(self._steps)

    def __len__(self) -> int:
        return len(self._steps)

    @overload
    def __getitem__(self, index: int) -> Step: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Step, ...]: ...
    def __getitem__(self, index: int | slice) -> Step | tuple[Step, ...]:
        return self._steps[index]

    def __eq__(self, other: object) -> bool:
        return self._steps == other._steps if isinstance(other, Ledger) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._steps)
