"""The text of a route: `Source -> Target`."""

from __future__ import annotations

import re
from typing import NamedTuple

NOWHERE = "nowhere"
PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""What covens and branch instances may be called, since journals carry these names."""

_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]*"
_ENDPOINT = re.compile(rf"\s*(?:(?P<instance>{_NAME})\s*\.\s*)?(?P<kind>[A-Za-z_][A-Za-z0-9_]*)\s*")
_ARROW = re.compile(r"->|→|=>")


class EndpointText(NamedTuple):
    """One end of a route as it is written; `offset` is where it stands in the text."""

    instance: str | None
    kind: str
    offset: int

    def __str__(self) -> str:
        return self.kind if self.instance is None else f"{self.instance}.{self.kind}"


class RouteText(NamedTuple):
    """A route as it is written. `targets` is empty for `nowhere`, and only then there may be several `sources`."""

    sources: tuple[EndpointText, ...]
    targets: tuple[EndpointText, ...]


class GrammarError(ValueError):
    """A text that is no route; `offset` is where it stops being one."""

    def __init__(self, message: str, offset: int, hint: str) -> None:
        super().__init__(message)
        self.offset, self.hint = offset, hint


def parse_route(text: str) -> RouteText:
    """The route of a text: `A -> B`, `A -> B, C`, `critics.A -> hearth.B`, `A, B -> nowhere`. Raises `GrammarError`."""
    arrows = list(_ARROW.finditer(text))
    if not arrows:
        raise GrammarError("a route is `Source -> Target`; here is no arrow", 0, "write `->` between the two kinds")
    arrow = arrows[0]
    if arrow[0] == "=>":
        raise GrammarError("the arrow of a route is `->`", arrow.start(), "write `->`")
    if len(arrows) > 1:
        raise GrammarError("a route has one arrow", arrows[1].start(), "write two routes, one line each")
    sources, targets = _endpoints(text[: arrow.start()], 0), _endpoints(text[arrow.end() :], arrow.end())
    for source in filter(_is_nowhere, sources):
        raise GrammarError("nothing comes from `nowhere`", source.offset, "write the kind that is routed here")
    silent = list(filter(_is_nowhere, targets))
    if silent and len(targets) > 1:
        raise GrammarError("`nowhere` stands alone", silent[0].offset, "remove it, or the other targets")
    if not silent and len(sources) > 1:
        at, hint = sources[1].offset, "write a route for each of them"
        raise GrammarError("several kinds in one line go to `nowhere` alone", at, hint)
    return RouteText(sources, () if silent else targets)


def parse_endpoint(text: str, offset: int = 0) -> EndpointText:
    """One end of a route: a kind, or an instance and a kind. Raises `GrammarError`."""
    match = _ENDPOINT.match(text)
    if match is None:
        at = offset + len(text) - len(text.lstrip())
        raise GrammarError("a kind belongs here", at, "e.g. `ChatAfferent`, or `critics.AgentResponse`")
    if match.end() < len(text):
        at = offset + match.end()
        raise GrammarError(
            f"`{text[match.end() :].strip()[:20]}` cannot stand here",
            at,
            "a name has letters, digits and `_`; further keys belong in the long form, `route: …`",
        )
    start = match.start("instance") if match["instance"] else match.start("kind")
    return EndpointText(match["instance"], match["kind"], offset + start)


def _endpoints(text: str, start: int) -> tuple[EndpointText, ...]:
    found: list[EndpointText] = []
    for part in text.split(","):
        found.append(parse_endpoint(part, start))
        start += len(part) + 1
    return tuple(found)


def _is_nowhere(end: EndpointText) -> bool:
    return end.instance is None and end.kind == NOWHERE
