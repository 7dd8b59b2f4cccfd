"""A ledger: one scope's append-only sequence of steps."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import overload

import msgspec

from policies._snapshot import Snapshot
from policies._step import Step

_encoder = msgspec.json.Encoder(order="sorted")


class Ledger:
    """What happened in one scope. Immutable: appending gives a new ledger, in constant time."""

    __slots__ = ("_digests", "_steps")

    def __init__(self, steps: Iterable[Step] = (), _digests: list[bytes] | None = None) -> None:
        self._steps = steps if isinstance(steps, Snapshot) else Snapshot(list(steps))
        self._digests: list[bytes] = [] if _digests is None else _digests

    def __repr__(self) -> str:
        return f"<Ledger of {len(self)} steps>"

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps."""
        return tuple(self._steps)

    @property
    def digest(self) -> str | None:
        """A hash of all steps; None for an empty ledger. One that has grown from another only hashes what is new."""
        for n in range(len(self._digests), len(self)):
            before = self._digests[n - 1] if n else b""
            self._digests.append(hashlib.blake2b(before + _encoder.encode(self._steps[n]), digest_size=12).digest())
        return self._digests[len(self) - 1].hex() if len(self) else None

    def append(self, step: Step) -> Ledger:
        """A ledger with one step more."""
        return self.extend((step,))

    def extend(self, steps: Iterable[Step]) -> Ledger:
        """A ledger with these steps more."""
        grown = self._steps
        for step in steps:
            grown = grown.plus(step)
        shared = grown.shares(self._steps)
        return Ledger(grown, self._digests if shared else self._digests[: len(self)])

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
