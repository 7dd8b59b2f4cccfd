"""Reading `coven.yaml`: from a path to a document and the file's own form."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from covenants.document import Document
from covenants.leaks import find_secrets
from covenants.model import CovenFile
from covenants.parsing import parse
from covenants.problems import Problem, shown
from covenants.shape import INVALID, Shaper


class Loaded(msgspec.Struct, frozen=True):
    """A file that was read. `file` is None where its form is broken; `document.problems` say why.

    `base` is the folder that paths in it are relative to; `environ` is where `${NAME}` is looked up.
    """

    document: Document
    file: CovenFile | None
    base: Path
    environ: Mapping[str, str]

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the form, in the order of the file."""
        return tuple(sorted(self.document.problems))


def load(path: str | Path, environ: Mapping[str, str]) -> Loaded:
    """Read a file. Never raises: a file that cannot be read is a problem too."""
    path = Path(path)
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        document = Document(str(path), "")
        reason = getattr(error, "strerror", None) or str(error)
        document.add("E101", f"the file cannot be read: {reason}", "`coven init` writes one to begin with")
        return Loaded(document, None, path.parent, environ)
    return load_text(data, environ, name=str(path), base=path.parent)


def load_text(data: bytes, environ: Mapping[str, str], *, name: str = "coven.yaml", base: Path = Path()) -> Loaded:
    """The same for bytes that somebody else has read. `name` stands in front of every problem."""
    document = parse(name, data)
    _note_secrets(document)
    if document.root is None:
        return Loaded(document, None, base, environ)
    _note_arrow_keys(document)
    file = Shaper(document).build(CovenFile, document.root, ())
    return Loaded(document, None if file is INVALID else file, base, environ)


def _note_secrets(document: Document) -> None:
    for offset, what in find_secrets(document.text):
        document.add(
            "E401",
            f"{what} stands here in clear",
            "put it into the environment and write `${NAME}` here; then replace the secret, since it was written down",
            at=document.place(offset),
        )


def _note_arrow_keys(document: Document) -> None:
    """Say what is meant where a route stands as a key, as in `- A -> B: {when: …}`, and go on with its text alone."""
    root: Any = document.root
    items: Any = cast("dict[str, Any]", root).get("covenant") if isinstance(root, dict) else None
    if not isinstance(items, list):
        return
    for number, item in enumerate(cast("list[Any]", items)):
        keys = list(cast("dict[str, Any]", item)) if isinstance(item, dict) else []
        arrow = next((key for key in keys if "->" in key), None)
        if arrow is not None and "route" not in keys:
            message = "a route that has further keys is written in the long form"
            hint = f"- route: {shown(arrow)}\n  when: …"
            document.add("E116", message, hint, at=("covenant", number, arrow), key=True)
            items[number] = arrow
