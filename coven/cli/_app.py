"""The commands. Each imports what it needs when it runs, so that none waits for another's libraries."""

from __future__ import annotations

import inspect
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


def _flowing(text: str) -> str:
    """A docstring as help that fits any width: each paragraph one line, and examples below one another."""
    flowing = ""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        example = paragraph.startswith(" ")
        flowing += "\n" if example else "\n\n"
        flowing += paragraph if example else " ".join(paragraph.splitlines())
    return flowing.strip()


def _let_flow(group: typer.Typer) -> None:
    """Have all commands of a group explain themselves so."""
    for command in group.registered_commands:
        if command.callback is not None and command.callback.__doc__:
            command.help = _flowing(command.callback.__doc__)
    for below in group.registered_groups:
        if below.typer_instance is not None:
            _let_flow(below.typer_instance)


for command in (init, run, cast, serve, acp, check, graph):
    app.command()(command)
app.add_typer(journal.app)
app.add_typer(loom.app)
app.add_typer(dead_letters.app)
app.command()(doctor)
_let_flow(app)
