"""`coven init`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def init(
    folder: Annotated[Path, typer.Argument(help="Where; made if it is missing.")] = Path(),
    force: Annotated[bool, typer.Option("--force", help="Overwrite a coven.yaml that is there.")] = False,
) -> None:
    """Write a commented coven.yaml and a workspace into an empty folder.

    Example:

      coven init hearth && cd hearth && coven run
    """
    from coven.project import create

    for path in create(folder, force=force):
        typer.echo(f"wrote {path}")
    there = "" if folder == Path() else f"cd {folder} && "
    typer.echo(f"now: {there}coven run")
