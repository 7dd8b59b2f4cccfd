"""The lines of the covenant: their text, and the kinds that they name."""

from __future__ import annotations

from typing import Any

from branches.manifest import Direction, Kind
from covenants.checks.scope import CONSUMED, COVENANT, Line, Scope
from covenants.document import Path
from covenants.grammar import EndpointText, GrammarError, RouteText, parse_endpoint, parse_route
from covenants.model import RouteOptions
from covenants.problems import nearest, shown, suggest
from covenants.shape import INVALID, Shaper
from covenants.transform import Endpoint

_MAX_NAME = 120
_SILENT_KEYS = ("fault", "map", "when", "via", "max_hops", "approve", "start")
_PLAIN = RouteOptions(route="")


def read_lines(scope: Scope) -> None:
    """Fill `scope.lines` with every route that can be understood."""
    for number, item in enumerate(scope.file.covenant):
        path = (*COVENANT, number)
        options = Shaper(scope.document).build(RouteOptions | str, item, path)
        if isinstance(options, str):
            options = RouteOptions(route=options)
        if options is not INVALID:
            scope.lines.extend(_read(scope, options, path))


def _read(scope: Scope, options: RouteOptions, path: Path) -> list[Line]:
    """The line; several where several kinds go to `nowhere` in one."""
    where = (*path, "route") if (*path, "route") in scope.document.spans else path
    try:
        text = parse_route(options.route)
    except GrammarError as error:
        scope.document.add("E116", str(error), error.hint, at=where, inside=(options.route, error.offset))
        return []
    _check_keys(scope, options, text, path)
    finder = _Finder(scope, options.route, where)
    source, *others = [finder.find(source, (Direction.PRODUCES,)) for source in text.sources]
    if not text.targets:
        return [Line(path, options, each, (), None, True, each is not None) for each in (source, *others)]
    targets = [finder.find(target, CONSUMED) for target in text.targets]
    fault = _fault(scope, options, source, path)
    found = tuple(target for target in targets if target is not None)
    if source is not None and options.via is not None:
        _check_targets_of_code(scope, found, path)
    complete = source is not None and len(found) == len(targets) and (fault is not None or options.fault is None)
    return [Line(path, options, source, found, fault, False, complete)]


def _check_keys(scope: Scope, options: RouteOptions, text: RouteText, path: Path) -> None:
    add = scope.document.add
    if not text.targets:
        for key in _SILENT_KEYS if len(text.sources) == 1 else (*_SILENT_KEYS, "name"):
            if getattr(options, key) != getattr(_PLAIN, key):
                what = "several kinds that go" if key == "name" else "a route"
                message = f"`{key}` has no meaning for {what} to `nowhere`"
                add("E117", message, f"remove `{key}`", at=(*path, key), key=True)
    if options.via is not None and options.map:
        message = "`via` makes the whole target, so `map` has nothing to fill"
        add("E117", message, "keep one of them", at=(*path, "map"), key=True)
    name = options.name
    if name is not None and not (name.isascii() and name.isprintable() and name.strip() == name and name):
        add("E113", "the name of a route is printable ASCII", "e.g. `name: replies`", at=(*path, "name"))
    elif name is not None and len(name) > _MAX_NAME:
        add("E113", f"the name of a route has at most {_MAX_NAME} characters", "shorten it", at=(*path, "name"))


def _check_targets_of_code(scope: Scope, targets: tuple[Endpoint, ...], path: Path) -> None:
    if len({target.instance for target in targets}) > 1:
        message, hint = "one function makes entries for one branch", "write a route for each branch"
    elif len({target.kind.name for target in targets}) < len(targets):
        message, hint = "a target stands twice", "remove one"
    else:
        return
    scope.document.add("E117", message, hint, at=(*path, "route"))


def _fault(scope: Scope, options: RouteOptions, source: Endpoint | None, path: Path) -> Endpoint | None:
    if options.fault is None:
        return None
    where = (*path, "fault")
    try:
        text = parse_endpoint(options.fault)
    except GrammarError as error:
        scope.document.add("E116", str(error), error.hint, at=where, inside=(options.fault, error.offset))
        return None
    if text.instance is None and len(scope.having(text.kind)) > 1:
        if source is None:
            return None  # what is wrong with the source is noted, and this may be right then
        if scope.branches[source.instance].manifest.get(text.kind):
            text = text._replace(instance=source.instance)
    return _Finder(scope, options.fault, where).find(text, CONSUMED)


class _Finder:
    """Finds what the text of one route names."""

    def __init__(self, scope: Scope, text: str, path: Path) -> None:
        self._scope, self._text, self._path = scope, text, path

    def find(self, name: EndpointText, directions: tuple[Direction, ...]) -> Endpoint | None:
        """The endpoint, or None with the problem noted."""
        if name.instance is not None:
            return self._qualified(name.instance, name, directions)
        having = self._scope.having(name.kind)
        if not having:
            self._note_unknown(name, directions)
            return None
        if len(having) > 1:
            self._scope.mentioned.update((branch.name, name.kind) for branch in having)
            names = [f"{branch.name}.{name.kind}" for branch in having]
            message = f"`{name.kind}` stands in the journals of {' and '.join(branch.name for branch in having)}"
            self._note("E209", message, f"say which one: {' or '.join(f'`{n}`' for n in names)}", name)
            return None
        return self._checked(Endpoint(having[0].name, self._kind(having[0].name, name.kind)), name, directions)

    def _qualified(self, instance: str, name: EndpointText, directions: tuple[Direction, ...]) -> Endpoint | None:
        branch = self._scope.branches.get(instance)
        if branch is None:
            known = list(self._scope.branches)
            if instance in self._scope.file.branches:
                return None  # it is configured, and what is wrong with it is noted there
            near = nearest(instance, known)
            if near is not None:
                self._scope.mentioned.add((near, name.kind))
            self._note("E207", f"no branch is called `{instance}`", suggest(instance, known), name)
            return None
        if branch.manifest.get(name.kind) is None:
            kinds = [kind.name for kind in branch.manifest.of(*directions)]
            near = nearest(name.kind, kinds)
            if near is not None:
                self._scope.mentioned.add((instance, near))
            at = name._replace(offset=name.offset + len(instance) + 1)
            self._note("E206", f"`{instance}` has no kind `{shown(name.kind)}`", suggest(name.kind, kinds), at)
            return None
        return self._checked(Endpoint(instance, self._kind(instance, name.kind)), name, directions)

    def _checked(self, endpoint: Endpoint, name: EndpointText, directions: tuple[Direction, ...]) -> Endpoint | None:
        kind = endpoint.kind
        if kind.direction in directions:
            return endpoint
        self._scope.mentioned.add((endpoint.instance, kind.name))
        near = [k.name for k in self._scope.branches[endpoint.instance].manifest.of(*directions)]
        if kind.direction is Direction.INTERNAL:
            message = f"`{kind.name}` is internal to {endpoint.instance}: no route may name it"
        elif Direction.PRODUCES in directions:
            message = f"{endpoint.instance} takes `{kind.name}` in and does not produce it"
        else:
            message = f"{endpoint.instance} produces `{kind.name}` and does not take it in"
        verb = "produces" if Direction.PRODUCES in directions else "takes in"
        self._note("E208", message, f"{endpoint.instance} {verb}: {', '.join(near) or 'nothing'}", name)
        return None

    def _note_unknown(self, name: EndpointText, directions: tuple[Direction, ...]) -> None:
        scope = self._scope
        for type, manifest in scope.manifests.items():
            if manifest.get(name.kind) and not any(branch.type == type for branch in scope.branches.values()):
                if len(scope.branches) == len(scope.file.branches):  # else it may be one that could not be read
                    message = f"`{name.kind}` is a kind of {type}, which is not configured"
                    self._note("E206", message, f"add `{type}:` under `branches:`", name)
                return
        known = sorted({endpoint.kind.name for endpoint in scope.endpoints(*directions)})
        near = nearest(name.kind, known)
        if near is not None:
            scope.mentioned.update((branch.name, near) for branch in scope.having(near))
        self._note("E206", f"no branch has a kind `{shown(name.kind)}`", suggest(name.kind, known), name)

    def _kind(self, instance: str, name: str) -> Kind:
        kind = self._scope.branches[instance].manifest.get(name)
        assert kind is not None
        return kind

    def _note(self, code: str, message: str, hint: str, name: Any) -> None:
        self._scope.document.add(code, message, hint, at=self._path, inside=(self._text, name.offset))
