"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Output(StrEnum):
    """How data is printed."""

    TEXT = "text"
    JSON = "json"


File = Annotated[
    Path, typer.Option("--file", "-f", envvar="COVEN_FILE", help="The configuration.", show_default="coven.yaml")
]
Nats = Annotated[
    str | None,
    typer.Option(
        "--nats", envvar="COVEN_NATS", help="A NATS server in place of the one in the file, e.g. nats://host:4222."
    ),
]
Format = Annotated[Output, typer.Option("--output", "-o", help="As text for people, or as JSON for programs.")]
Crystal = Annotated[
    str | None, typer.Option(help="Another crystal than that of the file: a name, or `file.py:Name` of yours.")
]
Medium = Annotated[str | None, typer.Option(help="Another medium: tools, javascript or python.")]
Agents = Annotated[
    str | None, typer.Option(help="Which agents instance answers, where the coven has several.", metavar="NAME")
]
MaybeFile = Annotated[
    Path | None, typer.Option("--file", "-f", envvar="COVEN_FILE", help="The configuration; coven.yaml if it is there.")
]
DEFAULT_FILE = Path("coven.yaml")
