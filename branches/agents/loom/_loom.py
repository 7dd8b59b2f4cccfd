"""The loom and its threads: the tree of turns, to look at and never to change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NoReturn

import msgspec

from branches.agents.crystal import Usage
from branches.agents.loom._turn import LoomIsAppendOnly, Turn
from branches.agents.root_call import RootCall


class UnknownTurn(LookupError):
    """No turn of the loom has this id, or more than one has an id that begins so."""

    def __init__(self, id: str, found: int = 0) -> None:
        many = f"{found} turns have ids that begin with {id!r}; give more of it"
        super().__init__(many if found else f"no turn of this loom has the id {id!r}")
        self.id = id


class Thread(msgspec.Struct, frozen=True):
    """A path through the loom, from its root to its last turn. A fork shares the first `shared` turns with another.

    `ending` is how it stands: `terminated`, `truncated`, `failed`, `cancelled`, or `active` while it goes on.
    """

    turns: tuple[Turn, ...]
    shared: int = 0

    def __len__(self) -> int:
        return len(self.turns)

    @property
    def own(self) -> tuple[Turn, ...]:
        """The turns that no other thread had before."""
        return self.turns[self.shared :]

    @property
    def last(self) -> Turn:
        """The newest turn."""
        return self.turns[-1]

    @property
    def entity_id(self) -> str:
        """Whose thread it is."""
        return self.last.entity_id

    @property
    def session(self) -> str | None:
        """The session of its own turns."""
        return self.last.session

    @property
    def ending(self) -> str:
        """How it stands."""
        return self.last.ending or "active"

    @property
    def result(self) -> Any:
        """What it came to; None while it is active."""
        return self.last.result

    @property
    def intents(self) -> tuple[str, ...]:
        """What the entity was asked, episode by episode."""
        return tuple(turn.intent for turn in self.turns if turn.intent is not None)

    @property
    def usage(self) -> Usage:
        """The tokens of its own turns, those of children not among them."""
        return sum((turn.metadata.usage for turn in self.own), Usage())


class _Branch:
    """A chain of turns: `first` to the newest. `child` says that it hangs below the turn that called it."""

    def __init__(self, *, child: bool) -> None:
        self.turns: list[Turn] = []
        self.child = child


class Loom:
    """All turns in the order in which they were recorded, and the calls at their roots.

    It outlasts its entities (ENTITY-4).

    Threads are those of root entities and of forks, in the order in which they began; a child's thread is found at the
    turn that called it, with `children`. `unreadable` are the positions of records that could not be read.

    Deleting a turn or setting anything raises `LoomIsAppendOnly`.
    """

    def __init__(
        self, turns: Iterable[Turn] = (), calls: Iterable[RootCall] = (), unreadable: Iterable[int] = ()
    ) -> None:
        kept = tuple(turns)
        self.__dict__.update(
            turns=kept,
            calls={call.cantrip_id: call for call in calls},
            unreadable=tuple(unreadable),
            _by_id={turn.id: turn for turn in kept},
        )

    turns: tuple[Turn, ...]
    calls: Mapping[str, RootCall]
    unreadable: tuple[int, ...]
    _by_id: Mapping[str, Turn]

    def __repr__(self) -> str:
        return f"<Loom of {len(self.turns)} turns in {len(self.threads)} threads>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Loom) and (self.turns, self.calls) == (other.turns, other.calls)

    def __hash__(self) -> int:
        return hash((self.turns[-1].id if self.turns else "", len(self.turns)))

    def __len__(self) -> int:
        return len(self.turns)

    @property
    def call(self) -> RootCall | None:
        """The call of the first root (CALL-4)."""
        return next(iter(self.calls.values()), None)

    @cached_property
    def threads(self) -> tuple[Thread, ...]:
        """Every thread of a root entity or a fork, in the order in which they began."""
        return tuple(self._thread(branch) for branch in self._branches if not branch.child)

    def thread(self, number: int) -> Thread:
        """The thread of this number, counted from 0. Raises `IndexError`."""
        return self.threads[number]

    def children(self, id: str) -> tuple[Thread, ...]:
        """The threads of the children that were called from a turn, each from its own first turn on (LOOM-8)."""
        return tuple(Thread(tuple(branch.turns)) for branch in self._called_from.get(id, ()))

    def path(self, id: str) -> Thread:
        """The path from the root to a turn, whosever it is (LOOM-10). Raises `UnknownTurn`."""
        return Thread(self._path(self.turn(id)))

    def turn(self, id: str) -> Turn:
        """The turn with this id, or whose id alone begins so. Raises `UnknownTurn`."""
        turn = self._by_id.get(id)
        if turn is None:
            found = [each for each in self.turns if each.id.startswith(id)] if id else []
            if len(found) != 1:
                raise UnknownTurn(id, len(found))
            turn = found[0]
        return turn

    @cached_property
    def entity_ids(self) -> tuple[str, ...]:
        """All entities, in the order in which they began."""
        return tuple(dict.fromkeys(turn.entity_id for turn in self.turns))

    def usage(self, entity_id: str | None = None) -> Usage:
        """The tokens of one entity over all its turns, or of all entities (PROD-3)."""
        of = (turn.metadata.usage for turn in self.turns if entity_id is None or turn.entity_id == entity_id)
        return sum(of, Usage())

    def delete(self, *_: object) -> NoReturn:
        """Always raises `LoomIsAppendOnly`."""
        raise LoomIsAppendOnly("no turn is ever deleted")

    __delitem__ = delete

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise LoomIsAppendOnly(f"its {name} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise LoomIsAppendOnly(f"its {name} cannot be deleted")

    @cached_property
    def _branches(self) -> Sequence[_Branch]:
        """Chains of turns, in one pass: a turn goes its entity's chain on, or begins one."""
        branches: list[_Branch] = []
        branch_of: dict[str, _Branch] = {}
        for turn in self.turns:
            parent = self._by_id.get(turn.parent_id or "")
            branch = None if parent is None else branch_of.get(parent.id)
            if branch is None or branch.turns[-1] is not parent or branch.turns[-1].entity_id != turn.entity_id:
                branch = _Branch(child=branch is not None and (branch.child or _is_child(turn, parent)))
                branches.append(branch)
            branch.turns.append(turn)
            branch_of[turn.id] = branch
        return branches

    @cached_property
    def _called_from(self) -> Mapping[str, list[_Branch]]:
        called: defaultdict[str, list[_Branch]] = defaultdict(list)
        for branch in self._branches:
            if branch.child:
                called[branch.turns[0].parent_id or ""].append(branch)
        return called

    def _thread(self, branch: _Branch) -> Thread:
        parent = self._by_id.get(branch.turns[0].parent_id or "")
        shared = () if parent is None else self._path(parent)
        return Thread((*shared, *branch.turns), len(shared))

    def _path(self, turn: Turn) -> tuple[Turn, ...]:
        backwards: dict[str, Turn] = {}
        at: Turn | None = turn
        while at is not None and at.id not in backwards:
            backwards[at.id] = at
            at = self._by_id.get(at.parent_id or "")
        return tuple(reversed(backwards.values()))


def _is_child(turn: Turn, parent: Turn | None) -> bool:
    """Whether a turn with another entity's turn as its parent is a child's first, and not a fork's.

    A fork has a session of its own. A loom of another program may know no sessions: there a child's turns are counted
    from 1.
    """
    if parent is None or parent.entity_id == turn.entity_id:
        return False
    return turn.sequence == 1 if turn.session is None else turn.session == parent.session
