"""What the router needs to know of a route."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from journals import Entry, Record


class TransformFailed(Exception):
    """A route could not make its target out of this source. Expected, and data: it goes to the route's fault.

    `code` is one word, e.g. `unknown_tool`, `bad_arguments`, `expression`, `via`.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Approval(NamedTuple):
    """Who is asked before a route writes anything: in which chat instance, and who may answer (anybody, if empty).

    `conversation` is the one that the question goes to; None for the one that the record belongs to.
    """

    chat: str
    conversation: str | None = None
    approvers: tuple[str, ...] = ()


class Placed(Protocol):
    """What has a place in a covenant: it takes one kind from one instance, in order, and goes on where it stood."""

    @property
    def name(self) -> str:
        """Its identity: `name:`, else the qualified source and target."""
        ...

    @property
    def source_instance(self) -> str:
        """The branch instance that it takes from."""
        ...

    @property
    def source_kind(self) -> str:
        """The kind that it takes."""
        ...

    @property
    def target_instance(self) -> str | None:
        """The branch instance that it brings to; None for `nowhere`."""
        ...

    @property
    def fault_instance(self) -> str | None:
        """The branch instance of its `fault:` kind; None where it has none."""
        ...

    @property
    def from_beginning(self) -> bool:
        """Whether it says `start: beginning`."""
        ...

    @property
    def short_lived(self) -> bool:
        """Whether its source kind is short-lived: such a route delivers at most once."""
        ...


class RoutedBy(Placed, Protocol):
    """A compiled route: pure, and the same for the same record."""

    @property
    def max_hops(self) -> int | None:
        """How often one exchange may pass through it, where it declares a cycle."""
        ...

    @property
    def approval(self) -> Approval | None:
        """Who must say yes to what it makes, before it is written; None where it asks nobody."""
        ...

    def apply(self, record: Record[Any]) -> list[Entry]:
        """The entries that this record becomes; none where `when:` says no. Raises `TransformFailed`."""
        ...

    def fault(self, record: Record[Any], failure: TransformFailed) -> Entry:
        """The entry of its `fault:` kind for a failure of this record."""
        ...
