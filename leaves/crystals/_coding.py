"""Gate calls as code, for a circle whose medium runs code: one call is one piece of code, and can be read back."""

from __future__ import annotations

import ast
import re
from typing import Any

import msgspec

from branches.agents.crystal import CrystalRequest
from branches.agents.gates import EXECUTE
from leaves.crystals._phrases import Wish

_LISTED = re.compile(r"^- ([\w.]+)\(", re.MULTILINE)
_JAVASCRIPT = re.compile(r"([\w.]+)\((\{.*\})\)", re.DOTALL)
_PYTHON = re.compile(r"([\w.]+)\(\*\*(\{.*\})\)", re.DOTALL)
_THROWN = re.compile(r"Error: (?:RuntimeError: )?(\w+): (.*?)(?: \(line \d+, column \d+\))?", re.DOTALL)


def gates_of(request: CrystalRequest) -> set[str]:
    """The gates that may be called, by tools or in code."""
    description = _description(request)
    if description is None:
        return {tool.name for tool in request.tools}
    return set(_LISTED.findall(description))


def in_code(request: CrystalRequest, wish: Wish) -> Wish:
    """The wish as it is to be called: itself, or as code where only code can be run."""
    description = _description(request)
    if description is None:
        return wish
    if description.startswith("Run Python"):
        return Wish(EXECUTE, {"code": f"{wish.gate}(**{wish.arguments!r})"})
    return Wish(EXECUTE, {"code": f"{wish.gate}({msgspec.json.encode(wish.arguments).decode()})"})


def out_of_code(gate: str, arguments: dict[str, Any]) -> Wish:
    """What `in_code` was given."""
    code = arguments.get("code")
    if gate != EXECUTE or not isinstance(code, str):
        return Wish(gate, arguments)
    if (python := _PYTHON.fullmatch(code)) is not None:
        return Wish(python[1], ast.literal_eval(python[2]))
    if (javascript := _JAVASCRIPT.fullmatch(code)) is not None:
        return Wish(javascript[1], msgspec.json.decode(javascript[2]))
    return Wish(gate, arguments)


def error_out_of_code(content: str) -> str:
    """A gate's failure as it reads where gates are tools: without where it was thrown, and with its code for a name."""
    thrown = _THROWN.fullmatch(content)
    if thrown is None:
        return content
    name, message = thrown[1], thrown[2]
    code = re.sub(r"(?<=.)(?=[A-Z])", "_", name).lower()
    return f"Error: {message}" if name == "GateError" else f"Error: {code}: {message}"


def _description(request: CrystalRequest) -> str | None:
    """What the tool that runs code says of itself; None where gates are tools."""
    return next((tool.description for tool in request.tools if tool.name == EXECUTE), None)
