"""`coven check`."""

from __future__ import annotations

from typing import Annotated

import typer

from coven.cli._options import DEFAULT_FILE, File, Format, Output


def check(
    file: File = DEFAULT_FILE,
    strict: Annotated[bool, typer.Option("--strict", help="Treat warnings as errors.")] = False,
    output: Format = Output.TEXT,
) -> None:
    """Look for everything that is wrong with a configuration, without starting anything.

    Each problem comes with a code (docs/checks.md explains it), file:line:column, and the line to add or change.
    The exit code is 2 if there are errors, else 0.

    Examples:

      coven check

      coven check -f other.yaml --strict -o json
    """
    import os

    from branches.wrapped import wrapped
    from coven.cli._text import terminal_width
    from covenants import check as check_loaded
    from covenants import load
    from leaves.catalogue import CATALOGUE

    checked = check_loaded(load(file, os.environ), CATALOGUE, strict=strict)
    if output is Output.JSON:
        import msgspec

        typer.echo(msgspec.json.encode({"ok": not checked.errors, "problems": checked.problems}))
    else:
        width = terminal_width()
        for problem in checked.problems:
            typer.echo(str(problem) if width is None else wrapped(str(problem), width))
        found = f"{_count(len(checked.errors), 'error')}, {_count(len(checked.warnings), 'warning')}"
        typer.echo(f"{file}: {found if checked.problems else 'all is well'}")
    if checked.errors:
        raise typer.Exit(2)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
