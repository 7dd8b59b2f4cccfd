"""`coven serve`."""

from __future__ import annotations

from typing import Annotated

import typer

from coven.cli._options import DEFAULT_FILE, Agents, File, Nats


def serve(
    host: Annotated[str, typer.Option(help="The address to listen at. Any but this machine's own needs a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 is any free one.")] = 8383,
    agents: Agents = None,
    file: File = DEFAULT_FILE,
    nats: Nats = None,
) -> None:
    """Answer over HTTP: casts, conversations, their events as they happen, their threads.

    GET /openapi.json describes it all. With the environment variable COVEN_HTTP_TOKEN set, requests need the header
    `Authorization: Bearer …`; without it only this machine is listened to. Services of the coven that run already
    answer; those that do not are started here, but for chats.

    A client that leaves cancels nothing: the episode goes on, and the same Idempotency-Key gets its answer later.

    Examples:

      coven serve

      curl -s 127.0.0.1:8383/cast --json '{"intent": "what files are here?"}'

      COVEN_HTTP_TOKEN=$(openssl rand -hex 32) coven serve --host 0.0.0.0
    """
    import os

    from branches.catalogue import ExtraMissing
    from coven.recipe import Changes, recipe_of
    from coven.terminal import tell

    try:
        from coven.serving import TOKEN
        from coven.serving import serve as serve_coven
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package not in ("starlette", "uvicorn"):
            raise
        raise ExtraMissing("http", package) from None

    recipe = recipe_of(file, os.environ, nats=nats, changes=Changes(agents))
    for problem in recipe.warnings:
        tell(str(problem))
    serve_coven(recipe, host, port, os.environ.get(TOKEN) or None)
