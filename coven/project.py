"""A new project: a commented `coven.yaml` and a workspace with something in it."""

from __future__ import annotations

import errno
from importlib.resources import files
from pathlib import Path

TEMPLATES = {"coven.yaml": "coven.yaml", "workspace/notes.md": "notes.md", ".gitignore": "gitignore"}
_KEPT = ".gitignore"


class FolderNotEmpty(Exception):
    """What would be written is there already."""

    def __init__(self, taken: list[Path]) -> None:
        names, are = ", ".join(map(str, taken)), "is" if len(taken) == 1 else "are"
        super().__init__(f"{names} {are} there already; work in an empty folder, or say --force to overwrite")
        self.taken = taken


def create(folder: Path, *, force: bool = False) -> list[Path]:
    """Write the files of a new project; gives their paths. A `.gitignore` that is there stays as it is.

    Raises `FolderNotEmpty` before anything is written when one of them exists and `force` is not set, and `OSError`.
    """
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "a file is in its place; name a folder", str(folder))
    targets = {
        folder / name: template for name, template in TEMPLATES.items() if name != _KEPT or not (folder / name).exists()
    }
    taken = [path for path in targets if path.exists()]
    if taken and not force:
        raise FolderNotEmpty(taken)
    for path, template in targets.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files("coven").joinpath("templates", template).read_bytes())
    return list(targets)
