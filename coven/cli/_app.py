"""The commands. Each imports what it needs when it runs, so that none waits for another's libraries."""

from __future__ import annotations

from typing import Annotated

import typer

from coven.cli import dead_letters, journal, loom
from coven.cli.acp import acp
from coven.cli.cast import cast
from coven.cli.check import check
from coven.cli.doctor import doctor
from coven.cli.graph import graph
from coven.cli.init import init
from coven.cli.run import run
from coven.cli.serve import serve

app = typer.Typer(
    name="coven",
    help="Agents on journals: a chat, a mind and its tools, joined by one YAML file and remembered in NATS JetStream.",
    epilog="Exit codes: 0 all is well, 1 something failed, 2 wrong usage or errors in coven.yaml, 130 stopped at once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"coven {version('coven-bus')}")
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    del show_version


for command in (init, run, cast, serve, acp, check, graph):
    app.command()(command)
app.add_typer(journal.app)
app.add_typer(loom.app)
app.add_typer(dead_letters.app)
app.command()(doctor)
