"""Trying routes on an entry, without any journal: what would become of it?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from covenants.model import Config
from covenants.routing import TransformFailed
from covenants.transform import Endpoint, Route
from journals import Entry, Record


class Tried(NamedTuple):
    """What one route made of the entry: entries, none where `when:` said no, or a failure.

    `fault` is the entry that goes home after a failure; without a `fault:` the record would become a dead letter.
    """

    route: Route
    entries: tuple[Entry, ...] = ()
    failure: TransformFailed | None = None
    fault: Entry | None = None


def try_routes(
    config: Config,
    kind: str,
    fields: Mapping[str, Any],
    *,
    instance: str | None = None,
    session: str = "trial",
    origin: str | None = None,
    correlation_id: str | None = "trial",
) -> list[Tried]:
    """Put an entry of this kind through every route that takes it, in the order of the file.

    `instance` says whose kind it is where several have it. Raises `KeyError` for a kind that no route takes and
    `msgspec.ValidationError` for fields that the kind does not have.
    """
    routes = [
        route for route in config.routes if route.source_kind == kind and instance in (None, route.source_instance)
    ]
    if not routes:
        raise KeyError(kind)
    entry = msgspec.convert({**fields, "kind": kind}, routes[0].source.kind.entry)
    return [_try(route, _record(route.source, entry, session, origin, correlation_id)) for route in routes]


def _try(route: Route, record: Record[Entry]) -> Tried:
    try:
        return Tried(route, tuple(route.apply(record)))
    except TransformFailed as failure:
        return Tried(route, (), failure, route.fault(record, failure) if route.fault_kind is not None else None)


def _record(
    source: Endpoint, entry: Entry, session: str, origin: str | None, correlation_id: str | None
) -> Record[Entry]:
    return Record(
        journal=source.instance,
        position=1,
        id="trial",
        kind=source.kind.name,
        session=session,
        entry=entry,
        time=0.0,
        correlation_id=correlation_id,
        origin=origin,
    )
