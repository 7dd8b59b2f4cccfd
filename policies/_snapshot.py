"""Snapshots of a list that only grows: taking one costs nothing, however long the list is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Generic, TypeVar, cast, overload

T = TypeVar("T")


class Snapshot(Sequence[T], Generic[T]):
    """The first `length` items of a list to which others only append. It never changes."""

    __slots__ = ("_items", "_length")

    def __init__(self, items: list[T], length: int | None = None) -> None:
        self._items = items
        self._length = len(items) if length is None else length

    def __repr__(self) -> str:
        return f"<Snapshot of {self._length}>"

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        return islice(self._items, self._length)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            return tuple(self._items[i] for i in range(*index.indices(self._length)))
        return self._items[range(self._length)[index]]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Snapshot):
            return NotImplemented
        theirs = cast("Snapshot[object]", other)
        return len(self) == len(theirs) and all(a == b for a, b in zip(self, theirs, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def shares(self, other: Snapshot[T]) -> bool:
        """Whether both show the same list, so that the shorter one is the beginning of the longer one."""
        return self._items is other._items

    def plus(self, item: T) -> Snapshot[T]:
        """A snapshot with one item more. Shares its storage unless another one has grown from this already."""
        items = self._items if len(self._items) == self._length else self._items[: self._length]
        items.append(item)
        return Snapshot(items)
