"""What the records of one source journal become: every effect packed for its target, faults and dead letters too."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import cast

import msgspec

from branches.chat.entries import ChatAnswer
from covenants._bundle import Bundle
from covenants._hearing import Hearing
from covenants.approving import DENIED, MADE_AT_MOST, Heard, Releasing, too_many
from covenants.dead_letters import DeadLetter
from covenants.routing import RoutedBy, TransformFailed
from journals import (
    DerivedIds,
    Draft,
    Entry,
    InvalidEntry,
    InvalidName,
    Journal,
    Record,
    RouteCursor,
    Routed,
    Unreadable,
    derive_id,
)

_REASON_CHARS = 4000
_UNADDRESSED = "unaddressed"
_log = logging.getLogger("coven.router")

ByTarget = dict[str, list[Routed]]


class Effects:
    """Puts records through every route that takes them. Pure but for the `cursors`, which say what has arrived."""

    def __init__(self, bundle: Bundle, cursors: Mapping[str, RouteCursor]) -> None:
        self._source, self._targets, self._dead_letters = bundle.source, bundle.journals, bundle.dead_letters
        self._cursors, self._tells_unreadable = cursors, bundle.tells_unreadable
        self._lowest = {name: min(behind) for name, behind in bundle.starts.items()}
        self._uneven = {name: behind for name, behind in bundle.starts.items() if behind[0] != behind[1]}
        self._routes: dict[str, list[RoutedBy]] = {}
        releasing = [route for route in bundle.routes if isinstance(route, Releasing)]
        for route in bundle.routes:
            if not isinstance(route, Releasing):
                self._routes.setdefault(route.source_kind, []).append(route)
        self.hearing = Hearing(bundle.source, releasing, bundle.journals) if releasing else None
        """What must `listen` to records before `of` is asked about them; None where nobody waits for an answer."""
        self._ids: dict[str, DerivedIds] = {}

    def __repr__(self) -> str:
        return f"<Effects of {self._source.name} through {sum(map(len, self._routes.values()))} routes>"

    def of(self, record: Record[Entry]) -> ByTarget:
        """What this record becomes, by target journal; where it has arrived already, nothing."""
        effects: ByTarget = {}
        if record.imported:
            return effects
        if isinstance(record.entry, Unreadable):
            if self._tells_unreadable:
                self._pack_letter(effects, record, "", TransformFailed("unreadable", record.entry.reason))
            return effects
        for route in self._routes.get(record.kind, ()):
            if record.position > self._lowest[route.name]:
                self._through(route, record, effects)
        if self.hearing is not None:
            heard = self.hearing.of(record)
            if heard is not None and record.position > self._lowest[heard.by.name]:
                self._release(heard, cast("Record[ChatAnswer]", record), effects)
        return effects

    def _through(self, route: RoutedBy, record: Record[Entry], effects: ByTarget) -> None:
        if route.target_instance is None:
            return
        hops = record.hops + (route.max_hops is not None)
        made: ByTarget = {}
        try:
            if route.max_hops is not None and hops > route.max_hops:
                raise TransformFailed("max_hops", f"this exchange has passed {route.max_hops} times; see `max_hops`")
            target = self._targets[route.target_instance]
            entries = route.apply(record)
            if len(entries) + len(effects.get(target.name, ())) > MADE_AT_MOST:
                raise too_many(len(entries))
            session = None if route.approval is None else route.approval.conversation
            for number, entry in enumerate(entries):
                self._pack(made, target, entry, record, route.name, number, hops, session)
            arrived = 0
        except (TransformFailed, InvalidEntry, InvalidName) as error:
            made = self._failed(route, record, _failure(error))
            arrived = 1
        if self._uneven and self._is_behind(route.name, record.position, arrived):
            return
        for target_name, packed in made.items():
            effects.setdefault(target_name, []).extend(packed)

    def _is_behind(self, route: str, position: int, edge: int) -> bool:
        """Whether a route begins later in its target (0) or its fault (1), where the two do not begin at once."""
        return route in self._uneven and position <= self._uneven[route][edge]

    def _failed(self, route: RoutedBy, record: Record[Entry], failure: TransformFailed) -> ByTarget:
        made: ByTarget = {}
        if route.fault_instance is not None and failure.code != "max_hops":
            try:
                fault = route.fault(record, failure)
                self._pack(made, self._targets[route.fault_instance], fault, record, f"{route.name}!", 0)
                return made
            except (TransformFailed, InvalidEntry, InvalidName):
                made.clear()  # not even its fault can be stored
        self._pack_letter(made, record, route.name, failure)
        return made

    def _release(self, heard: Heard, answer: Record[ChatAnswer], effects: ByTarget) -> None:
        """What an answer lets through belongs to the record that was asked about, as if nobody had been asked."""
        route, source = heard.by.route, heard.source
        made: ByTarget = {}
        try:
            entries = heard.by.release(heard, answer)
            assert source is not None
            assert route.target_instance is not None
            target = self._targets[route.target_instance]
            hops = source.hops + (route.max_hops is not None)
            for number, entry in enumerate(entries):
                id = derive_id("released", heard.question.id, number)
                self._put(made, target, released_draft(entry, source, answer, route.name, id, hops), answer.position)
            arrived = 0
        except (TransformFailed, InvalidEntry, InvalidName) as error:
            made = self._refused(heard, answer, _failure(error))
            arrived = 1
        if not self._is_behind(heard.by.name, answer.position, arrived):
            for target_name, packed in made.items():
                effects.setdefault(target_name, []).extend(packed)

    def _refused(self, heard: Heard, answer: Record[ChatAnswer], failure: TransformFailed) -> ByTarget:
        """The fault of the route; without one a dead letter about the record, which asks again when it is sent again.

        A person's no is no failure of the route: where it has no fault, nothing comes of it.
        """
        route, source = heard.by.route, heard.source
        made: ByTarget = {}
        id = derive_id("released!", heard.question.id)
        if route.fault_instance is not None and source is not None:
            try:
                draft = released_draft(route.fault(source, failure), source, answer, route.name, id)
                self._put(made, self._targets[route.fault_instance], draft, answer.position)
                return made
            except (TransformFailed, InvalidEntry, InvalidName):
                made.clear()
        if failure.code != DENIED or route.fault_instance is not None:
            about = answer
            if source is not None:
                about, failure = source, TransformFailed(failure.code, f"{failure}; sent again, it asks again")
            self._put_letter(made, about, route.name, failure, id, answer.position)
        return made

    def _pack_letter(self, effects: ByTarget, record: Record[Entry], route: str, failure: TransformFailed) -> None:
        id = routed_ids(route or "dead-letters", self._source)(record.position, 0)
        self._put_letter(effects, record, route, failure, id, record.position)

    def _put_letter(
        self, effects: ByTarget, about: Record[Entry], route: str, failure: TransformFailed, id: str, position: int
    ) -> None:
        letter, name = _letter(about, route, failure), route or "dead-letters"
        try:
            self._put(effects, self._dead_letters, routed_draft(letter, about, name, id), position)
        except (InvalidEntry, InvalidName):  # the envelope that somebody else wrote cannot be written again
            bare = msgspec.structs.replace(about, session=_UNADDRESSED, id="", correlation_id=None, origin=None)
            self._put(effects, self._dead_letters, routed_draft(letter, bare, name, id), position)

    def _pack(
        self,
        effects: ByTarget,
        target: Journal,
        entry: Entry,
        record: Record[Entry],
        route: str,
        number: int,
        hops: int = 0,
        session: str | None = None,
    ) -> None:
        cursor = self._cursors[target.name]
        if record.position <= cursor.position:
            return
        ids = self._ids.get(route)
        if ids is None:
            ids = self._ids[route] = routed_ids(route, self._source)
        draft = routed_draft(entry, record, route, ids(record.position, number), hops, session)
        effects.setdefault(target.name, []).append(cursor.pack(draft, record.position))

    def _put(self, effects: ByTarget, target: Journal, draft: Draft, position: int) -> None:
        cursor = self._cursors[target.name]
        if position > cursor.position:
            effects.setdefault(target.name, []).append(cursor.pack(draft, position))


def routed_ids(route: str, source: Journal) -> DerivedIds:
    """The ids of what a route makes of a journal's records, by their positions and the number of the effect."""
    return DerivedIds("route", route, source.name, source.log.incarnation)


def routed_draft(
    entry: Entry, record: Record[Entry], route: str, id: str, hops: int = 0, session: str | None = None
) -> Draft:
    """What a route writes: session, correlation and origin of its source, and an id that derives from it.

    `session` is another one that it goes to.
    """
    return Draft(
        entry=entry,
        session=session or record.session,
        id=id,
        correlation_id=record.correlation_id,
        causation_id=record.id,
        origin=record.origin,
        route=route,
        hops=hops or record.hops,
    )


def released_draft(
    entry: Entry, source: Record[Entry], answer: Record[ChatAnswer], route: str, id: str, hops: int = 0
) -> Draft:
    """What a route writes once it may: it stands where it would have stood, and names the answer that caused it."""
    draft = routed_draft(entry, source, route, id, hops)
    return msgspec.structs.replace(draft, causation_id=answer.id)


def _letter(record: Record[Entry], route: str, failure: TransformFailed) -> DeadLetter:
    _log.warning("dead letter: %s of %s at %d: %s", route or record.kind, record.journal, record.position, failure)
    return DeadLetter(
        route=route,
        journal=record.journal,
        position=record.position,
        source_kind=record.kind,
        code=failure.code,
        reason=str(failure)[:_REASON_CHARS].encode("utf-8", "replace").decode(),
    )


def _failure(error: Exception) -> TransformFailed:
    return error if isinstance(error, TransformFailed) else TransformFailed("not_storable", str(error))
