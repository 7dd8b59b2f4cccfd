"""`coven run`."""

from __future__ import annotations

from typing import Annotated

import typer

from coven.cli._options import DEFAULT_FILE, File, Nats


def run(
    file: File = DEFAULT_FILE,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Start just this service: chat, agents, spellcasting, covenant, or a branch by its name. Repeatable."
        ),
    ] = None,
    nats: Nats = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what happens, to standard error.")] = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="COVEN_DEBUG", help="Log everything, and show tracebacks.")
    ] = False,
) -> None:
    """Start the coven and talk to it.

    On a terminal it prompts; Ctrl-C stops everything in order, and starting again goes on with the conversation.
    Through a pipe each line is a prompt, and it ends when the last one is answered.

    With --only several terminals make one coven: whoever comes first starts the embedded server, the others join it,
    and when that one leaves, another one takes the server over.

    Examples:

      coven run

      printf 'what files are here?\\n' | coven run

      coven run --only agents --nats nats://nats:4222
    """
    import os

    from coven.logs import configure_logs
    from coven.running import run as run_coven

    if debug:
        os.environ["COVEN_DEBUG"] = "1"
    configure_logs("debug" if debug else "verbose" if verbose else "quiet")
    run_coven(file, only=only or (), nats=nats)
