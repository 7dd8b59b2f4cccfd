"""`coven doctor`."""

from __future__ import annotations

from typing import Annotated

import typer

from coven.cli._options import DEFAULT_FILE, File, Format, Nats, Output


def doctor(
    file: File = DEFAULT_FILE,
    nats: Nats = None,
    service: Annotated[
        str | None,
        typer.Option(help="Only ask whether this service runs, by its last lifecycle entry: for health checks."),
    ] = None,
    output: Format = Output.TEXT,
) -> None:
    """Examine the server, its durability, the folder and the surroundings, and say what to do about what is wrong.

    The exit code is 1 if there is a problem.

    Examples:

      coven doctor

      coven doctor --service agents --nats nats://nats:4222
    """
    import asyncio

    from coven import health

    if service is not None:
        state = asyncio.run(health.service_state(file, nats, service))
        if output is Output.JSON:
            import msgspec

            typer.echo(msgspec.json.encode({"service": service, "state": state}))
        else:
            typer.echo(f"{service} is {state}")
        if state != "running":
            raise typer.Exit(1)
        return
    findings = asyncio.run(health.examine(file, nats))
    if output is Output.JSON:
        import msgspec

        typer.echo(msgspec.json.encode(findings))
    else:
        for finding in findings:
            typer.echo(f"{finding.level:<8} {finding.topic:<10} {finding.message}")
            if finding.cure:
                typer.echo(f"{'':<19} -> {finding.cure}")
    if any(finding.level == "problem" for finding in findings):
        raise typer.Exit(1)
