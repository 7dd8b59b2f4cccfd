"""How the branches meet: the configuration, its check, and the router."""

from covenants.check import Checked, check
from covenants.graph import mermaid
from covenants.loading import Loaded, load, load_text
from covenants.manifests import MANIFESTS
from covenants.model import Branch, Config, Leaf, NatsOptions
from covenants.problems import CODES, Problem, Severity
from covenants.routing import TransformFailed
from covenants.schema import json_schema
from covenants.transform import Endpoint, Route
from covenants.trial import Tried, try_routes

__all__ = [
    "CODES",
    "MANIFESTS",
    "Branch",
    "Checked",
    "Config",
    "Endpoint",
    "Leaf",
    "Loaded",
    "NatsOptions",
    "Problem",
    "Route",
    "Severity",
    "TransformFailed",
    "Tried",
    "check",
    "json_schema",
    "load",
    "load_text",
    "mermaid",
    "try_routes",
]
