"""`coven journal …`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coven.cli._options import DEFAULT_FILE, File, Format, Nats, Output

if TYPE_CHECKING:
    from journals import Entry, Journal, Record

app = typer.Typer(name="journal", help="Look into the journals, and move them.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The journal: a branch by its name, `coven`, or `dead-letters`.")]
Kinds = Annotated[list[str] | None, typer.Option("--kind", "-k", help="Only this kind. Repeatable.")]
Session = Annotated[str | None, typer.Option("--session", "-s", help="Only this session, i.e. one conversation.")]
After = Annotated[int, typer.Option(help="Only what stands behind this position.")]
Before = Annotated[int | None, typer.Option(help="Only what stands before this position.")]


@app.command("list")
def list_journals(file: File = DEFAULT_FILE, nats: Nats = None, output: Format = Output.TEXT) -> None:
    """List the journals with the position and the time of their last record.

    Example:

      coven journal list
    """
    asyncio.run(_list(file, nats, output))


async def _list(file: Path, nats: str | None, output: Output) -> None:
    import time

    import msgspec

    from coven.cli._text import columns
    from coven.shelf import shelf_of

    rows: list[tuple[str, int, float | None]] = []
    async with shelf_of(file, nats) as shelf:
        for name in shelf.names:
            last = await (await shelf.open(name)).last()
            rows.append((name, 0 if last is None else last.position, None if last is None else last.time))
    if output is Output.JSON:
        found = [{"journal": name, "last": position, "time": moment} for name, position, moment in rows]
        typer.echo(msgspec.json.encode(found))
        return
    shown = [
        (name, position or "-", "-" if moment is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment)))
        for name, position, moment in rows
    ]
    for line in columns(shown, ("journal", "last", "time")):
        typer.echo(line)


@app.command()
def read(
    name: Name,
    file: File = DEFAULT_FILE,
    nats: Nats = None,
    kind: Kinds = None,
    session: Session = None,
    after: After = 0,
    before: Before = None,
    reverse: Annotated[bool, typer.Option("--reverse", "-r", help="The newest first.")] = False,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="At most so many.")] = None,
    output: Format = Output.TEXT,
) -> None:
    """Print what is recorded.

    Examples:

      coven journal read chat --session console

      coven journal read agents -k AgentToolCall -k AgentToolFault --reverse -n 20 -o json
    """

    async def work() -> None:
        from coven.shelf import shelf_of

        async with shelf_of(file, nats) as shelf:
            journal = await shelf.open(name)
            warned = _warn_of_unknown(kind, journal)
            records = journal.read(after=after, before=before, kinds=kind, session=session, reverse=reverse)
            if not await _print(records, output, limit) and not warned:
                looked = kind or session or after or before is not None
                typer.echo(f"coven: journal {name!r} {'has no such record' if looked else 'is empty'}", err=True)

    asyncio.run(work())


@app.command()
def tail(
    name: Name,
    file: File = DEFAULT_FILE,
    nats: Nats = None,
    kind: Kinds = None,
    session: Session = None,
    after: Annotated[int | None, typer.Option(help="Begin behind this position; 0 is the beginning.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="End after so many.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the coven runs.")] = False,
    output: Format = Output.TEXT,
) -> None:
    """Print what is recorded from now on, until Ctrl-C. The coven must run; `--wait` waits until it does.

    Examples:

      coven journal tail chat

      coven journal tail agents --after 0 -o json
    """

    async def work() -> None:
        from coven.link import Join
        from coven.shelf import shelf_of

        async with shelf_of(file, nats, Join.WAIT if wait else Join.RUNNING) as shelf:
            journal = await shelf.open(name)
            _warn_of_unknown(kind, journal)
            start = await journal.end() if after is None else after
            await _print(journal.tail(start, kinds=kind, session=session), output, limit)

    asyncio.run(work())


def _warn_of_unknown(kinds: list[str] | None, journal: Journal) -> bool:
    """Say which of these kinds are not known, no more: a newer version may have written them. Gives whether one is."""
    from covenants.problems import suggest

    unknown = [kind for kind in kinds or () if kind not in journal.registry]
    for kind in unknown:
        hint = suggest(kind, journal.registry.kinds)
        typer.echo(f"coven: no kind of journal {journal.name!r} is called {kind!r}; {hint}", err=True)
    return bool(unknown)


async def _print(records: AsyncGenerator[Record[Entry]], output: Output, limit: int | None) -> int:
    """Print so many of the records at most; gives how many there were."""
    from coven.cli._text import record_line, terminal_width
    from journals import export_line

    width, count = terminal_width(), 0
    async with aclosing(records) as following:
        async for record in following:
            if output is Output.JSON:
                line = export_line(record)
            else:
                line = record_line(record, width).encode(sys.stdout.encoding or "utf-8", "replace")
            sys.stdout.buffer.write(line + b"\n")
            sys.stdout.buffer.flush()
            count += 1
            if count == limit:
                break
    return count


@app.command()
def export(
    name: Name,
    target: Annotated[Path, typer.Argument(help="The file to write; `-` is standard output.")] = Path("-"),
    file: File = DEFAULT_FILE,
    nats: Nats = None,
    session: Session = None,
    after: After = 0,
    before: Before = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is there.")] = False,
) -> None:
    """Write a journal to a file, one record a line of JSON. What cannot be decoded keeps its body.

    Examples:

      coven journal export agents agents.jsonl

      coven journal export chat - --session console | jq .entry.text
    """

    async def work() -> None:
        from coven.cli._progress import progress_bar
        from coven.shelf import shelf_of
        from coven.transfer import WholeFile, export_records

        if target != Path("-") and target.exists() and not force:
            raise typer.BadParameter(f"{target} is there already; choose another name, or --force")
        async with shelf_of(file, nats) as shelf:
            journal = await shelf.open(name)
            end = before or await journal.end()
            sink = nullcontext(sys.stdout.buffer) if target == Path("-") else WholeFile(target)
            with progress_bar(f"exporting {name}", end) as progress, sink as stream:
                records = journal.read(after=after, before=before, session=session)
                count = await export_records(records, stream, progress)
        typer.echo(f"exported {count:,} records of {name}", err=True)

    asyncio.run(work())


@app.command("import")
def import_journal(
    name: Name,
    source: Annotated[Path, typer.Argument(help="A file that `coven journal export` wrote; `-` is standard input.")],
    file: File = DEFAULT_FILE,
    nats: Nats = None,
) -> None:
    """Read a journal from a file. Records keep their ids and times, and are never routed.

    Importing a file again writes nothing twice.

    Example:

      coven journal import agents agents.jsonl
    """

    async def work() -> None:
        from coven.cli._progress import progress_bar
        from coven.shelf import shelf_of
        from coven.transfer import import_lines

        size = 0 if source == Path("-") else source.stat().st_size
        opened = nullcontext(sys.stdin.buffer) if source == Path("-") else source.open("rb")
        with opened as lines, progress_bar(f"importing {name}", size) as progress:
            async with shelf_of(file, nats) as shelf:
                journal = await shelf.open(name)
                imported = await import_lines(lines, journal, shelf.registry(name), progress)
        there = f", {imported.present:,} were there already" if imported.present else ""
        typer.echo(f"imported {imported.written:,} records into {name}{there}", err=True)

    asyncio.run(work())
