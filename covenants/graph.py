"""A covenant as a picture: Mermaid text, with a box for each branch instance."""

from __future__ import annotations

from branches.agents.entries import AgentToolCall
from branches.agents.options import AgentsOptions
from covenants.model import Config
from covenants.transform import Endpoint, Route

_NOWHERE = "nowhere"


def mermaid(config: Config) -> str:
    """The flowchart of a configuration; GitHub and most editors draw it."""
    lines = ["flowchart LR"]
    used = _used(config)
    for branch in config.branches.values():
        title = branch.name if branch.name == branch.type else f"{branch.name} ({branch.type})"
        lines.append(f'  subgraph {_id(branch.name)}["{title}"]')
        for endpoint in used:
            if endpoint.instance == branch.name:
                shape = '{0}(["{1}"])' if endpoint.kind.short_lived else '{0}["{1}"]'
                lines.append(f"    {shape.format(_node(endpoint), endpoint.kind.name)}")
        lines.append("  end")
    if any(not route.targets for route in config.routes):
        lines.append(f'  {_NOWHERE}(("{_NOWHERE}"))')
    for route in config.routes:
        lines.extend(_edges(route, _asks(config, route)))
    return "\n".join(lines) + "\n"


def _used(config: Config) -> tuple[Endpoint, ...]:
    """Every kind that a route names, once, in the order of the routes."""
    ends = [end for route in config.routes for end in (route.source, *route.targets, route.fault_kind) if end]
    return tuple(dict.fromkeys(ends))


def _asks(config: Config, route: Route) -> str:
    """Who must say yes before something passes here; of calls, the gates for which somebody must."""
    if route.approval is not None:
        who = f" by {' or '.join(route.approval.approvers)}" if route.approval.approvers else ""
        return f"if approved in {route.approval.chat}{who}"
    options = config.branches[route.source_instance].options
    if route.source.kind.entry is AgentToolCall and isinstance(options, AgentsOptions) and options.circle.approve:
        return f"if approved: {', '.join(options.circle.approve)}"
    return ""


def _edges(route: Route, asks: str) -> list[str]:
    source = _node(route.source)
    parts = [
        f"when {route.when}" if route.when else "",
        f"via {route.via}" if route.via else "",
        f"at most {route.max_hops} hops" if route.max_hops else "",
        asks,
    ]
    label = _quoted(", ".join(part for part in parts if part))
    arrow = f"-->|{label}|" if label else "-->"
    if not route.targets:
        return [f"  {source} -.-> {_NOWHERE}"]
    edges = [f"  {source} {arrow} {_node(target)}" for target in route.targets]
    if route.fault_kind is not None:
        edges.append(f'  {source} -.->|"fault"| {_node(route.fault_kind)}')
    return edges


def _id(name: str) -> str:
    """A name that Mermaid takes as an identifier, and no word of its language."""
    return "b_" + "".join(char if char.isalnum() and char.isascii() else f"_{ord(char):x}_" for char in name)


def _node(endpoint: Endpoint) -> str:
    return f"{_id(endpoint.instance)}_{endpoint.kind.name}"


def _quoted(label: str) -> str:
    if not label:
        return ""
    escaped = "".join(char if char.isalnum() or char in " .,:_-/()=" else f"#{ord(char)};" for char in label)
    return f'"{escaped}"'
