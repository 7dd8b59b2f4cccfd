"""`coven dead-letters …`."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated

import typer

from coven.cli._options import DEFAULT_FILE, File, Format, Nats, Output

if TYPE_CHECKING:
    from covenants.dead_letters import DeadLetter
    from journals import Record

app = typer.Typer(name="dead-letters", help="What no route could take, and sending it again.", no_args_is_help=True)

Id = Annotated[str, typer.Argument(help="The id of the dead letter, or its beginning.")]


@app.command("list")
def list_letters(file: File = DEFAULT_FILE, nats: Nats = None, output: Format = Output.TEXT) -> None:
    """List the dead letters that have not been sent again, oldest first.

    Example:

      coven dead-letters list
    """

    async def work() -> None:
        from coven.cli._text import columns
        from coven.shelf import shelf_of
        from covenants.dead_letters import JOURNAL
        from covenants.redrive import waiting_letters
        from journals import export_line

        async with shelf_of(file, nats) as shelf:
            letters = await waiting_letters(await shelf.open(JOURNAL))
        if output is Output.JSON:
            for letter in letters:
                typer.echo(export_line(letter))
            return
        if not letters:
            typer.echo("there are no dead letters")
            return
        for line in columns(map(_row, letters), ("id", "time", "route", "source", "code", "reason")):
            typer.echo(line)

    asyncio.run(work())


def _row(letter: Record[DeadLetter]) -> tuple[str, ...]:
    entry = letter.entry
    return (
        letter.id[:8],
        time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(letter.time)),
        entry.route or "-",
        f"{entry.source_kind} at {entry.journal} {entry.position}",
        entry.code,
        " ".join(entry.reason.split()),
    )


@app.command()
def show(id: Id, file: File = DEFAULT_FILE, nats: Nats = None, output: Format = Output.TEXT) -> None:
    """Show one dead letter, and the record that it is about.

    Example:

      coven dead-letters show 4ykq2a
    """

    async def work() -> None:
        import msgspec

        from coven.letters import find_letter
        from coven.shelf import shelf_of
        from covenants.dead_letters import JOURNAL
        from journals import export_line

        async with shelf_of(file, nats) as shelf:
            letter = await find_letter(await shelf.open(JOURNAL), id)
            source = await (await shelf.open(letter.entry.journal)).get(letter.entry.position)
        lines = {"letter": msgspec.Raw(export_line(letter))}
        if source is not None:
            lines["source"] = msgspec.Raw(export_line(source))
        body = msgspec.json.encode(lines)
        typer.echo(body if output is Output.JSON else msgspec.json.format(body, indent=2))

    asyncio.run(work())


@app.command()
def redrive(
    ids: Annotated[list[str] | None, typer.Argument(help="The ids, or their beginnings.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All that wait.")] = False,
    file: File = DEFAULT_FILE,
    nats: Nats = None,
    output: Format = Output.TEXT,
) -> None:
    """Send dead letters again, through the routes as they are now. Doing it twice has the effects once.

    The exit code is 1 if one of them still cannot go.

    Examples:

      coven dead-letters redrive 4ykq2a

      coven dead-letters redrive --all
    """
    if bool(ids) is every:
        raise typer.BadParameter("name the dead letters, or say --all")

    async def work() -> bool:
        import msgspec

        from coven.letters import find_letter
        from coven.shelf import shelf_of
        from covenants.dead_letters import JOURNAL
        from covenants.redrive import redrive as send_again
        from covenants.redrive import waiting_letters

        async with shelf_of(file, nats) as shelf:
            dead_letters = await shelf.open(JOURNAL)
            letters = (
                await waiting_letters(dead_letters)
                if every
                else [await find_letter(dead_letters, id) for id in ids or ()]
            )
            branches = await shelf.branches()
            outcomes = [await send_again(letter, shelf.config.routes, branches, dead_letters) for letter in letters]
        if output is Output.JSON:
            typer.echo(msgspec.json.encode(outcomes))
        for outcome in outcomes if output is Output.TEXT else ():
            written = "1 entry" if outcome.effects == 1 else f"{outcome.effects} entries"
            typer.echo(f"{outcome.id[:8]}  {outcome.problem or f'sent again, {written} written'}")
        return all(outcome.problem is None for outcome in outcomes)

    if not asyncio.run(work()):
        raise typer.Exit(1)
