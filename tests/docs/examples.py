"""The examples of a page: its fenced blocks, and the file that a few lines of YAML stand for."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
START = (ROOT / "coven/templates/coven.yaml").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```(?P<info>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_KIND = re.compile(r"(?:[\w-]+\.)?([A-Z]\w+)")


class Block(NamedTuple):
    """One fenced block; `section` is the heading that it stands under."""

    section: str
    info: str
    text: str


def blocks(page: str) -> list[Block]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found: list[Block] = []
    for match in _BLOCK.finditer(text):
        headings = re.findall(r"^### (.*)$", text[: match.start()], re.MULTILINE)
        found.append(Block(headings[-1] if headings else "", match["info"], match["text"]))
    return found


def whole_file(lines: str) -> str:
    """The file of `coven init` with these lines in it; lines that name a coven and its covenant are a file already.

    Mappings are merged. A route takes the place of every route that shares its source or one of its targets.
    """
    parsed: Any = YAML(typ="safe", pure=True).load(lines)
    if {"coven", "branches", "covenant"} <= set(parsed):
        return lines
    file: Any = YAML(typ="safe", pure=True).load(START)
    routes = parsed.pop("covenant", [])
    _merge(file, parsed)
    for number in (0, 1):
        named = {kind for route in routes for kind in _ends(route)[number]}
        file["covenant"] = [route for route in file["covenant"] if not named & set(_ends(route)[number])]
    file["covenant"] = [*file["covenant"], *routes]
    stream = io.StringIO()
    YAML(typ="safe", pure=True).dump(file, stream)
    return stream.getvalue()


def write_code(page: str, folder: Path) -> None:
    """Write every Python block of the page that begins with the name of a file."""
    for block in blocks(page):
        name = re.match(r"# (\w+\.py)\n", block.text)
        if block.info == "python" and name:
            (folder / name[1]).write_text(block.text, encoding="utf-8")


def _merge(into: Any, other: Any) -> None:
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


def _ends(route: Any) -> tuple[list[str], list[str]]:
    text = route if isinstance(route, str) else route.get("route", next(iter(route)))
    source, _, target = text.partition("->")
    return _KIND.findall(source), _KIND.findall(target)
