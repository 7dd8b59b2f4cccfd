"""`coven graph`."""

from __future__ import annotations

import typer

from coven.cli._options import DEFAULT_FILE, File


def graph(file: File = DEFAULT_FILE) -> None:
    """Print the covenant as a Mermaid flowchart, which GitHub and most editors draw.

    Example:

      coven graph > covenant.mmd
    """
    import os

    from coven.configuration import configure
    from covenants import mermaid

    typer.echo(mermaid(configure(file, os.environ, run=False).config), nl=False)
