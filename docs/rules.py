"""The page `docs/conformance.md`: each rule, the tests that hold it, and where it is implemented.

The rules are those of `rules.yaml`. A case of the suite names its rules; any other test, and whatever implements a
rule, names it in its docstring: `LOOP-3`, or `COMP-1 to COMP-4` for several.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec
from ruamel.yaml import YAML

from tests.conformance import case as written
from tests.conformance.loading import load
from tests.conformance.saying import mediums

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/conformance.md"
PACKAGES = ("branches", "coven", "covenants", "journals", "leaves", "policies")
_RULE = re.compile(r"\b(?P<family>[A-Z]+)-(?P<first>\d+)(?: to (?:[A-Z]+-)?(?P<last>\d+))?\b")
_GENERATED = re.compile(r"(<!-- generated: (?P<name>\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rules() -> dict[str, dict[str, str]]:
    """The rules by chapter: what each one says."""
    return YAML(typ="safe", pure=True).load((ROOT / "docs/rules.yaml").read_text(encoding="utf-8"))


def page_text() -> str:
    """The page with its generated parts as they must be."""
    parts = {"rules": _rules, "format": _format}
    text = PAGE.read_text(encoding="utf-8")
    return _GENERATED.sub(lambda match: match[1] + parts[match["name"]]() + match[3], text)


def held() -> dict[str, list[str]]:
    """The tests that hold each rule, as the page names them."""
    by_rule: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests/conformance/suite").glob("*.yaml")):
        for case in load(path):
            where = f"`{path.name}`: {case.name} ({case.skipped or ', '.join(mediums(case))})"
            for rule in (case.rule, *case.also):
                by_rule[rule].append(where)
    for path, name, rule in _named(["tests"]):
        if Path(path).name.startswith("test_"):
            by_rule[rule].append(f"`{path}`{f': `{name}`' if name else ''}")
    return by_rule


def implemented() -> dict[str, list[str]]:
    """Where each rule is implemented, as the page names it."""
    by_rule: defaultdict[str, list[str]] = defaultdict(list)
    for path, name, rule in _named(PACKAGES):
        by_rule[rule].append(f"[`{path}`](../{path}){f' `{name}`' if name else ''}")
    return by_rule


def _rules() -> str:
    tests, places = held(), implemented()
    lines: list[str] = []
    for chapter, told in rules().items():
        lines += [f"### {chapter}", ""]
        for rule, says in told.items():
            lines += [f"**{rule}** {says}", ""]
            lines += [f"- Held by {each}" for each in tests.get(rule, ())]
            lines += [f"- Implemented in {', '.join(places[rule])}" for _ in range(rule in places)]
            lines.append("")
    return "\n".join(lines)


def _named(folders: list[str] | tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """Every rule that a docstring names, with the file and the name of what has the docstring."""
    known = {rule for told in rules().values() for rule in told}
    for path in sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for name, node in _documented(tree, ""):
            for rule in dict.fromkeys(_rules_in(ast.get_docstring(node) or "")):
                if rule in known:
                    yield path.relative_to(ROOT).as_posix(), name, rule


def _documented(node: Any, name: str) -> Iterator[tuple[str, Any]]:
    yield name, node
    for child in node.body:
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _documented(child, f"{name}.{child.name}" if name else child.name)


def _rules_in(text: str) -> Iterator[str]:
    for match in _RULE.finditer(text):
        first, last = match["first"], match["last"] or match["first"]
        for number in range(int(first), int(last) + 1):
            yield f"{match['family']}-{number:0{len(first)}d}"


def _format() -> str:
    """The keys of a suite, from the structs that read it."""
    lines: list[str] = []
    for struct in _structs():
        about = " ".join((struct.__doc__ or "").split())
        keys = [
            f"`{field.name}`: {_type(field.type)}" for field in msgspec.structs.fields(struct) if _is_key(field.name)
        ]
        lines += [f"**{struct.__name__}.** {about}", "", *textwrap.wrap("; ".join(keys), 118), ""]
    return "\n".join(lines)


def _structs() -> list[type[written.Strict]]:
    found = (value for value in vars(written).values() if isinstance(value, type))
    return [each for each in found if issubclass(each, written.Strict) and each is not written.Strict]


def _is_key(name: str) -> bool:
    return name not in ("where", "crystals", "invocations", "observations", "each_thread")


def _type(wanted: Any) -> str:
    origin, arguments = get_origin(wanted), get_args(wanted)
    if origin is not None and str(origin).endswith("Literal"):
        return " or ".join(f"`{value}`" for value in arguments)
    if origin in (list, tuple):
        return f"list of {_type(arguments[0])}"
    if origin is dict:
        return "mapping"
    if arguments:
        told = [_type(each) for each in arguments if each is not msgspec.UnsetType]
        return " or ".join(dict.fromkeys(told))
    if wanted is type(None):
        return "null"
    return {"str": "text", "int": "whole number", "float": "number", "bool": "true or false"}.get(
        getattr(wanted, "__name__", ""), "anything" if wanted is Any else f"{wanted.__name__}"
    )
