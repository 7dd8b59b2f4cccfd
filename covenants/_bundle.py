"""Routes that are carried together: out of one journal, in its order, by the same cursors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from covenants.applied import cursor_name
from covenants.approving import Carried
from journals import Journal


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """The routes, the journals between which they carry, and behind which positions each of them begins.

    `starts` has, by the name of a route, where its target and where its fault begins. `journals` are those of the
    branch instances. `lane` tells the cursors of a bundle apart that must not hold the others of its source; it is
    empty for these.
    """

    source: Journal
    routes: Sequence[Carried]
    starts: Mapping[str, tuple[int, int]]
    journals: Mapping[str, Journal]
    dead_letters: Journal
    lane: str = ""

    @property
    def cursor_name(self) -> str:
        """The name of its cursors, the same in every journal that it writes to."""
        return cursor_name(self.source.name, self.lane)

    @property
    def tells_unreadable(self) -> bool:
        """Whether what cannot be decoded becomes a dead letter here, since several bundles may have one source."""
        return not self.lane

    def reached(self) -> dict[str, tuple[Journal, int]]:
        """The journals that it writes to, by name, and the first position that any route begins behind there."""
        ends = [
            (self.journals[instance], start)
            for route in self.routes
            for instance, start in zip(
                (route.target_instance, route.fault_instance), self.starts[route.name], strict=True
            )
            if instance is not None
        ]
        ends.append((self.dead_letters, min(map(min, self.starts.values()), default=0)))
        found: dict[str, tuple[Journal, int]] = {}
        for journal, start in ends:
            _, earliest = found.get(journal.name, (journal, start))
            found[journal.name] = (journal, min(start, earliest))
        return found
